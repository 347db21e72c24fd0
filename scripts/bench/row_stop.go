package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const (
	stopWaiters = 20_000
	stopSpare   = 200 // descriptors for other things
	stopBudget  = 1   // second
)

// stopKinds are what the waiters of a stop ask for.
var stopKinds = []struct {
	what string
	ask  func(i int) *leaseapi.Ask // nil: as version 1
}{
	{"one pool", func(int) *leaseapi.Ask { return &leaseapi.Ask{} }},
	{"two pools", func(int) *leaseapi.Ask { return &leaseapi.Ask{Also: []leaseapi.Also{{Type: "other"}}} }},
	{"a key of 200", func(i int) *leaseapi.Ask { return &leaseapi.Ask{Key: fmt.Sprint("key-", i%200)} }},
	{"version 1", func(int) *leaseapi.Ask { return nil }},
	{"followers of one run", func(int) *leaseapi.Ask {
		return &leaseapi.Ask{Key: "key", Coalesce: leaseapi.CoalesceJoin, Variant: "main"}
	}},
}

// measureStop measures the time from TERM of a leader for which many wait until the next one may begin.
// This process is the next one: how long it takes to read a long queue is measured elsewhere.
func measureStop(ctx context.Context, w *world) ([]result, error) {
	d := onEtcd
	if lack := d.lacks(); lack != "" {
		return []result{{What: "a stop while many wait", Unit: inSeconds, Ours: missing("leasectl --data "+d.data, lack)}}, nil
	}
	waiters, err := stoppable()
	if err != nil {
		return nil, err
	}
	var all []result
	for _, kind := range stopKinds {
		took, cpu, err := w.stopTime(ctx, d, waiters, kind.ask)
		if err != nil {
			return all, fmt.Errorf("%s: %w", kind.what, err)
		}
		all = append(all,
			result{What: fmt.Sprintf("TERM of a leader that %d wait for until the next may begin: %s", waiters, kind.what), Unit: inSeconds,
				Ours: one("leasectl --data "+d.data, took.Seconds()), Limit: atMost(stopBudget)},
			result{What: "… CPU time of the leader until its end", Unit: inSeconds, Ours: one("leasectl --data "+d.data, cpu.Seconds())})
	}
	return all, nil
}

// stoppable returns how many can wait for a server: it has a descriptor for each of them, and so has
// this process.
func stoppable() (int, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return int(min(stopWaiters, max(limit.Cur, stopSpare)-stopSpare)), err
}

// stopTime stops a leader while many wait for a held lease. It returns how long it takes until the lead
// is free, and how much CPU time until the leader's end.
func (w *world) stopTime(ctx context.Context, d database, waiters int, ask func(int) *leaseapi.Ask) (took, cpu time.Duration, err error) {
	db, err := d.start(ctx, w)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.stop()) }()
	config := w.fresh("config")
	text := "resources:\n"
	for _, typ := range []string{"one", "other"} {
		text += fmt.Sprintf("- {type: %s, state: free, min-count: 1, max-count: 1, max_waiters: %d}\n", typ, waiters)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return 0, 0, err
	}
	first, err := w.serve(ctx, "--config", config, "--data", db.data)
	if err != nil {
		return 0, 0, err
	}
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, first.stop())
		}
	}()
	if err := leads(ctx, first); err != nil {
		return 0, 0, err
	}
	type gain struct {
		at  time.Time
		err error
	}
	gained := make(chan gain, 1)
	gaining, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		next, err := openStore(gaining, db.data)
		g := gain{time.Now(), err}
		if err == nil {
			g.err = next.Close()
		}
		gained <- g
	}()
	var q queue
	defer func() { q.close() }()
	for i := range waiters + 1 { // the first gets the lease
		c, err := dial(first.addr)
		if err != nil {
			return 0, 0, fmt.Errorf("waiter %d: %w", i, err)
		}
		q = append(q, c)
		if a := ask(i); a == nil {
			err = c.acquiring("one")
		} else {
			a.Type = "one"
			err = c.asking(leaseapi.AcquireRequest{Ask: *a, Owner: "job", RequestID: fmt.Sprint("stop-", i)})
		}
		if i == 0 && err == nil {
			_, err = c.answer()
		}
		if err != nil {
			return 0, 0, fmt.Errorf("waiter %d: %w", i, err)
		}
	}
	watcher, err := dial(first.addr)
	if err != nil {
		return 0, 0, err
	}
	defer watcher.close()
	if err := await(ctx, leaseapi.SliceTime, func() (bool, error) {
		pool, err := watcher.pool()
		return pool.Waiting+pool.Following == waiters, err
	}); err != nil {
		return 0, 0, fmt.Errorf("%d waiters: %w", waiters, err)
	}
	before, err := first.usage()
	if err != nil {
		return 0, 0, err
	}
	stopped = true
	begin := time.Now()
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, 0, err
	}
	next := <-gained
	if next.err != nil {
		return 0, 0, next.err
	}
	<-first.done
	all := first.cmd.ProcessState
	return next.at.Sub(begin), all.UserTime() + all.SystemTime() - time.Duration(before.cpu*float64(time.Second)), nil
}
