package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// A reconciler has many objects, and one run per object at a time: the object is the key. The
// clients are in one process, since the start of a process alone takes as long as a run.
const (
	keyRequests = 10_020
	keyObjects  = 200
	keyLanes    = 10
	keyRun      = 10 * time.Millisecond
	keyPeer     = 300 // requests of the peer, which starts four processes for each
)

// measureKeys measures whether keys cost throughput: how long a backlog takes compared with its
// runs alone, and how much faster nine lanes are than one.
func measureKeys(ctx context.Context, w *world) ([]result, error) {
	all, err := w.drainKeys(ctx, keyLanes, keyRequests)
	if err != nil {
		return nil, err
	}
	backlog := result{What: fmt.Sprintf("10,020 requests over %d keys, %d at once, beside their runs alone", keyObjects, keyLanes), Unit: factor,
		Ours: one("leasectl", all.took.Seconds()/all.ideal.Seconds()), Limit: atMost(1.1)}
	backlog.Peers = append(backlog.Peers, w.semKeys(ctx))

	var lanes []float64
	for range 2 {
		one, err := w.drainKeys(ctx, 1, 200)
		if err != nil {
			return nil, err
		}
		nine, err := w.drainKeys(ctx, 9, 1_800)
		if err != nil {
			return nil, err
		}
		lanes = append(lanes, nine.rate/one.rate)
	}
	speedup := result{What: "9 lanes beside one", Unit: factor, Ours: median("leasectl", lanes), Limit: atLeast(8.5).missedTo(8)}
	burst, err := measureBurst(ctx, w)
	if err != nil {
		return nil, err
	}
	killed, err := w.killTenth(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]result{backlog, speedup}, burst, killed), nil
}

// keyed is the result of a backlog of requests with keys.
type keyed struct {
	took  time.Duration // from the first grant to the last release
	ideal time.Duration // how long the runs alone take on that many lanes
	rate  float64       // runs a second
}

// drainKeys queues requests and lets them run as they are granted. It fails if two runs of a
// key overlap, or more runs than lanes.
func (w *world) drainKeys(ctx context.Context, lanes, requests int) (k keyed, err error) {
	config := w.fresh("config")
	text := fmt.Sprintf("resources:\n- {type: many, max-count: %d, max_waiters: %d}\n", lanes, requests)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return k, err
	}
	s, err := w.serve(ctx, "--config", config)
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	gate, err := dial(s.addr) // pauses the pool until all requests wait
	if err != nil {
		return k, err
	}
	defer gate.close()
	if _, err := gate.call(http.MethodPost, leaseapi.PathPause, `{"type":"many","reason":"all come first"}`); err != nil {
		return k, err
	}
	clients, err := queueKeyed(s.addr, requests)
	defer clients.close()
	if err != nil {
		return k, err
	}
	err = await(ctx, time.Minute, func() (bool, error) {
		time.Sleep(100 * time.Millisecond) // no need to load the server with more questions
		n, err := gate.waiting()
		return n == requests, err
	})
	if err != nil {
		return k, err
	}
	runs := keyRuns{lanes: lanes}
	failed := make(chan error, requests)
	var drained sync.WaitGroup
	for i, c := range clients {
		drained.Go(func() {
			got, err := c.granted()
			if err == nil {
				err = errors.Join(runs.run(i%keyObjects), c.release(got.Names[0]))
			}
			if err != nil {
				failed <- fmt.Errorf("request %d: %w", i, err)
			}
		})
	}
	begin := time.Now()
	if _, err := gate.call(http.MethodPost, leaseapi.PathResume, `{"type":"many"}`); err != nil {
		clients.close()
		return k, err
	}
	drained.Wait()
	k.took = time.Since(begin)
	k.ideal = time.Duration(runs.busy.Load()) / time.Duration(lanes)
	k.rate = float64(requests) / k.took.Seconds()
	close(failed)
	return k, <-failed
}

// queueKeyed sends requests, each on a connection of its own. The caller must close the returned
// queue, even after an error.
func queueKeyed(addr string, requests int) (clients queue, err error) {
	for i := range requests {
		c, err := dial(addr)
		if err != nil {
			return clients, err
		}
		clients = append(clients, c)
		ask := leaseapi.Ask{Type: "many", Key: fmt.Sprint("object-", i%keyObjects)}
		if err := c.asking(leaseapi.AcquireRequest{Ask: ask}); err != nil {
			return clients, err
		}
	}
	return clients, nil
}

// keyRuns are the runs of a backlog.
type keyRuns struct {
	lanes    int
	now      atomic.Int64             // how many run now
	ofObject [keyObjects]atomic.Int64 // how many of them are of each object
	busy     atomic.Int64             // nanoseconds of all runs
}

// run is one run. The error is that it overlaps another of the object, or that more run than
// there are lanes.
func (r *keyRuns) run(object int) (err error) {
	begin := time.Now()
	if now := r.now.Add(1); now > int64(r.lanes) {
		err = fmt.Errorf("%d run at once", now)
	}
	if r.ofObject[object].Add(1) != 1 {
		err = fmt.Errorf("two run of object %d", object)
	}
	time.Sleep(keyRun)
	r.busy.Add(int64(time.Since(begin)))
	r.ofObject[object].Add(-1)
	r.now.Add(-1)
	return err
}

// semKeys runs fewer such requests with the usual alternative: a semaphore of GNU parallel
// around a flock per key.
func (w *world) semKeys(ctx context.Context) measure {
	name := fmt.Sprintf("flock per key under sem -j%d, %d requests", keyLanes, keyPeer)
	if lack := lacks("sem", "flock"); lack != "" {
		return missing(name, lack)
	}
	dir := w.fresh("sem")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return missing(name, err.Error())
	}
	script := `for i in $(seq ` + strconv.Itoa(keyPeer) + `); do
  sem -j` + strconv.Itoa(keyLanes) + ` --id keys flock "$1/$((i % ` + strconv.Itoa(keyObjects) + `))" sleep ` + strconv.FormatFloat(keyRun.Seconds(), 'f', -1, 64) + `
done
sem --wait --id keys`
	cmd := exec.CommandContext(ctx, "sh", "-c", script, "sh", dir)
	cmd.Env = w.environment()
	begin := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return missing(name, fmt.Sprintf("%v: %s", err, strings.TrimSpace(string(out))))
	}
	ideal := keyPeer * keyRun / keyLanes
	return one(name, time.Since(begin).Seconds()/ideal.Seconds())
}

const (
	killLimit     = 20
	killProcesses = 500
	killHold      = 300 * time.Millisecond
)

// killTenth runs many execs on a few leases and KILLs a tenth of them. No more may run at once
// than there are leases, no survivor may lose its turn, and no lease may stay held.
func (w *world) killTenth(ctx context.Context) (_ []result, err error) {
	s, err := w.serveDurable(ctx, "--pool", fmt.Sprintf("few=%d", killLimit))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	var commands []*exec.Cmd
	for i := range killProcesses {
		cmd := exec.CommandContext(ctx, w.leasectl, "exec", "--proxy", s.url, "--type", "few", "--quiet", "--owner", fmt.Sprint("job-", i),
			"--grace-period", "0s", "--ttl", "10s", "--", w.self, "-job", killHold.String())
		cmd.Env = w.environment()
		commands = append(commands, cmd)
	}
	lost := make([]error, killProcesses)
	crowd, err := watchJobs(ctx, commands, 2*time.Millisecond, func(i int, p *os.Process) {
		if i%10 == 3 {
			time.AfterFunc(time.Duration(i%7)*killHold/2, func() { p.Kill() })
		}
	}, func(i int, err error) {
		if i%10 != 3 && err != nil {
			lost[i] = fmt.Errorf("job %d: %w", i, err)
		}
	})
	if err != nil {
		return nil, err
	}
	recover := exec.CommandContext(ctx, w.leasectl, "recover", "--proxy", s.url, "--quiet")
	recover.Env = w.environment()
	if out, err := recover.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("recover: %w: %s", err, out)
	}
	held, err := s.held()
	if err != nil {
		return nil, err
	}
	failures := 0
	for _, err := range lost {
		if err != nil {
			failures++
		}
	}
	what := fmt.Sprintf("a limit of %d and %d processes, of which a tenth are killed: ", killLimit, killProcesses)
	counted := func(what string, value int, l *limit) result {
		return result{What: what, Unit: number, Ours: one("leasectl", float64(value)), Limit: l}
	}
	return []result{
		counted(what+"at once, at most", crowd.most, atMost(killLimit)),
		counted("… of those that live, not run", failures, atMost(0)),
		counted("… still held after leasectl recover", held, atMost(0)),
	}, nil
}

// held is how many units of the first pool are in use.
func (s *server) held() (int, error) {
	c, err := dial(s.addr)
	if err != nil {
		return 0, err
	}
	defer c.close()
	pool, err := c.pool()
	return pool.InUse, err
}
