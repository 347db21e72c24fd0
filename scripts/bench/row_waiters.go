package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const (
	waiterCount = 10_000
	idleWindow  = 3 * time.Second
	// idleCPU is the percentage that still counts as none: 9 s in an hour.
	idleCPU = 0.25
)

// measureWaiters measures the cost of blocked waiters for a server.
func measureWaiters(ctx context.Context, w *world) ([]result, error) {
	var memory, idle []measure
	for _, s := range []struct {
		name  string
		start func() (*server, error)
	}{
		{"leasectl", func() (*server, error) { return w.serve(ctx, "--pool", "one=1") }},
		{"bare channels", func() (*server, error) { return w.bare(ctx, "channels") }},
	} {
		m, c, err := w.blocked(ctx, s.start, waiterCount)
		if err != nil {
			return nil, err
		}
		memory, idle = append(memory, one(s.name, m)), append(idle, one(s.name, c))
	}
	size := resultOf("server memory for each waiter", inBytes, memory)
	size.Limit = atMost(22 << 10)
	cpu := resultOf("server CPU while they wait, of a core", percent, idle)
	cpu.Limit = atMost(idleCPU)
	return []result{size, cpu}, nil
}

// blocked lets n clients wait for a lease that is held. It returns how many bytes the server
// grew for each, and the percentage of a core that it used then.
func (w *world) blocked(ctx context.Context, start func() (*server, error), n int) (memory, cpu float64, err error) {
	s, err := start()
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	holder, err := dial(s.addr)
	if err != nil {
		return 0, 0, err
	}
	defer holder.close()
	if err := holder.pair("one"); err != nil { // so that what the server sets up once does not count
		return 0, 0, err
	}
	if err := holder.acquiring("one"); err != nil {
		return 0, 0, err
	}
	if _, err := holder.granted(); err != nil {
		return 0, 0, err
	}
	before, err := s.usage()
	if err != nil {
		return 0, 0, err
	}
	queue, err := line(ctx, s.addr, "one", n)
	defer queue.close()
	if err != nil {
		return 0, 0, err
	}
	full, err := s.usage()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	time.Sleep(idleWindow)
	after, err := s.usage()
	if err != nil {
		return 0, 0, err
	}
	return (full.memory - before.memory) / float64(n), 100 * (after.cpu - full.cpu) / time.Since(begin).Seconds(), nil
}

// queue is clients that wait, in the order in which they came.
type queue []*wire

// lineStep is how many waiters join the queue at once; the order among them is not known. A
// smaller step takes longer, and shows no more.
const lineStep = 20

// line lets n clients queue up for a type, and returns when all are in the queue. The caller
// must close the returned queue, even after an error.
func line(ctx context.Context, addr, typ string, n int) (queue, error) {
	return lineUp(ctx, func() (*wire, error) { return dial(addr) }, typ, n)
}

// lineUp is line with connections that dial makes.
func lineUp(ctx context.Context, dial func() (*wire, error), typ string, n int) (queue, error) {
	watcher, err := dial()
	if err != nil {
		return nil, err
	}
	defer watcher.close()
	var q queue
	for len(q) < n {
		for range min(lineStep, n-len(q)) {
			c, err := dial()
			if err != nil {
				return q, fmt.Errorf("waiter %d: %w", len(q), err)
			}
			q = append(q, c)
			// With an owner the answer says generations, which show the order.
			if err := c.asking(leaseapi.AcquireRequest{Ask: leaseapi.Ask{Type: typ}, Owner: fmt.Sprint("job-", len(q))}); err != nil {
				return q, err
			}
		}
		err := await(ctx, startTime, func() (bool, error) {
			waiting, err := watcher.waiting()
			return waiting == len(q), err
		})
		if err != nil {
			return q, fmt.Errorf("%d waiters: %w", len(q), err)
		}
	}
	return q, nil
}

func (q queue) close() {
	for _, c := range q {
		c.close()
	}
}

// usage is the memory and the CPU time of a process.
type usage struct {
	memory float64 // bytes that are resident
	cpu    float64 // seconds of user and system time so far
}

// usage reads them from proc(5), which only Linux has.
func (s *server) usage() (u usage, err error) { return usageOf(s.cmd.Process.Pid) }

func usageOf(pid int) (u usage, err error) {
	dir := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(dir + "/statm")
	if err != nil {
		return u, err
	}
	var size, pages, ofFiles float64 // proc_pid_statm(5)
	if _, err := fmt.Sscan(string(text), &size, &pages, &ofFiles); err != nil {
		return u, fmt.Errorf("read %s/statm: %w", dir, err)
	}
	u.memory = (pages - ofFiles) * float64(os.Getpagesize()) // the system can take those of files back

	// schedstat counts nanoseconds, where stat counts in ticks of 10 ms.
	tasks, err := os.ReadDir(dir + "/task")
	if err != nil {
		return u, err
	}
	for _, task := range tasks {
		text, err := os.ReadFile(dir + "/task/" + task.Name() + "/schedstat")
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return u, err
		}
		nanos, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseFloat(nanos, 64)
		if err != nil {
			return u, err
		}
		u.cpu += n / 1e9
	}
	return u, nil
}
