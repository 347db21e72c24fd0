package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// herdTable compares the herds; the first is ours. minute is the length of a minute of the
// herd, and times are shown in such minutes. The paced pool may have a peak of flat, and must keep
// the part rate of the rate without a pace.
func herdTable(runs map[string][]job, minute time.Duration, flat, rate float64) []result {
	table := []struct {
		what  string
		unit  unit
		limit *limit
		value func([]job) float64
	}{
		{"most starts in any minute ÷ mean", factor, atMost(flat), func(jobs []job) float64 { return peak(starts(jobs), minute) }},
		{"starts per minute once the pool is full", number, nil, func(jobs []job) float64 { return steadyRate(starts(jobs), minute) }},
		{"minutes waited, mean", number, nil, func(jobs []job) float64 { mean, _ := waits(jobs); return mean.Seconds() / minute.Seconds() }},
		{"minutes waited, longest", number, nil, func(jobs []job) float64 { _, most := waits(jobs); return most.Seconds() / minute.Seconds() }},
	}
	var results []result
	for _, line := range table {
		var measures []measure
		for _, h := range herds {
			measures = append(measures, one(h.name, line.value(runs[h.name])))
		}
		r := resultOf(line.what, line.unit, measures)
		r.Limit = line.limit
		results = append(results, r)
	}
	results[1].budget("no pace", atLeast(rate))
	return results
}

// measureHerdSimulated runs the pools of the server in virtual time.
func measureHerdSimulated(context.Context, *world) ([]result, error) {
	runs := make(map[string][]job)
	for _, h := range herds {
		jobs, err := h.simulate()
		if err != nil {
			return nil, err
		}
		runs[h.name] = jobs
	}
	return herdTable(runs, time.Minute, 1.2, 0.99), nil
}

const (
	// herdScale is by how much time is shortened: a hold of 20 minutes takes two seconds.
	herdScale = 600
	// realFlat is the peak ÷ mean that is allowed. Grants are whole numbers: three in a minute of
	// 2.5 are 1.20, and the mean of a real run is not exactly 2.5.
	realFlat = 1.25
	// realRate is lower than in the simulation: real holds vary, and lateness beyond half a
	// pace, which is 20 ms here, is not made up for.
	realRate = 0.95
)

// measureHerdReal runs the same with real processes and a real server. If a process is delayed
// by 10 ms, for example by other programs on the machine, its start is six seconds of the herd
// late.
func measureHerdReal(ctx context.Context, w *world) ([]result, error) {
	runs := make(map[string][]job)
	for _, h := range herds {
		jobs, err := w.stampede(ctx, h)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.name, err)
		}
		runs[h.name] = jobs
	}
	return herdTable(runs, time.Minute/herdScale, realFlat, realRate), nil
}

// stampede runs the herd once: each job is a leasectl exec that holds its lease
// as long as its command sleeps. Starts are the grants in the server's log.
func (w *world) stampede(ctx context.Context, h herd) (_ []job, err error) {
	s, err := w.serveHerd(ctx, h)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	jobs := herd{}.jobs() // leasectl does the jitter
	hold := fmt.Sprint((herdHold / herdScale).Seconds())
	failed := make(chan error, len(jobs))
	var running sync.WaitGroup
	defer running.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end() // kills what still runs after a failure
	begin := time.Now()
	for i := range jobs {
		comes := begin.Add(jobs[i].comes / herdScale)
		time.Sleep(time.Until(comes))
		cmd := exec.CommandContext(ctx, w.leasectl, "exec", "--proxy", s.url, "--type", "install",
			"--jitter", (h.jitter / herdScale).String(), "--owner", fmt.Sprint("job-", i), "--", "sleep", hold)
		cmd.Env = w.environment()
		var stderr strings.Builder
		cmd.Stderr = &stderr
		jobs[i].comes = time.Since(begin)
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		running.Go(func() {
			if err := cmd.Wait(); err != nil {
				failed <- fmt.Errorf("job %d: %w: %s", i, err, stderr.String())
			}
		})
	}
	running.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return nil, err
	}
	return jobs, readStarts(s.log, begin, jobs)
}

// serveHerd starts a server with the pool of the herd.
func (w *world) serveHerd(ctx context.Context, h herd) (*server, error) {
	config := fmt.Sprintf("resources:\n- type: install\n  state: free\n  min-count: %d\n  max-count: %[1]d\n", herdLeases)
	if h.pace > 0 {
		config += fmt.Sprintf("  pace: auto\n  hold: %s\n", herdHold/herdScale)
	}
	path := w.fresh("config")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	return w.serve(ctx, "--config", path)
}

var grantLine = regexp.MustCompile(`^time=(\S+) .*msg=granted owner=job-([0-9]+) `)

// readStarts reads from a server's log when the jobs got their leases, into their starts.
func readStarts(path string, begin time.Time, jobs []job) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	found := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		m := grantLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, m[1])
		if err != nil {
			return fmt.Errorf("the server's log: %w", err)
		}
		var i int
		if _, err := fmt.Sscan(m[2], &i); err != nil || i >= len(jobs) {
			return fmt.Errorf("the server's log: job %q", m[2])
		}
		jobs[i].starts = at.Sub(begin)
		found++
	}
	if found != len(jobs) {
		return fmt.Errorf("the server's log has %d grants, want %d", found, len(jobs))
	}
	return lines.Err()
}
