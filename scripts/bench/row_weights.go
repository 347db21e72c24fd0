package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Jobs differ in how much memory they take, and say in advance how many items they
// have. A unit is 64 KiB here, so that the budget fits a small machine.
const (
	weightJobs    = 30
	weightItems   = 200
	weightUnits   = 6144
	weightFixed   = 512 // units of each job where all count as the largest
	weightUnit    = 64 << 10
	weightTouched = 168 // units that a job of 200 items touches: 128, and a fifth for each item; it asks for 192
	weightHold    = 2 * time.Second
)

// measureWeights measures how many more jobs run at once in a budget of memory if each asks for
// what it needs, and how much less jobs of different sizes wait if they overtake each other.
func measureWeights(ctx context.Context, w *world) ([]result, error) {
	weighted, err := w.weighted(ctx, "--items", fmt.Sprint(weightItems))
	if err != nil {
		return nil, err
	}
	fixed, err := w.weighted(ctx, "--count", fmt.Sprint(weightFixed))
	if err != nil {
		return nil, err
	}
	at := result{What: fmt.Sprintf("jobs of %d items at once, of %d, in %d units", weightItems, weightJobs, weightUnits), Unit: number,
		Ours:  one("leasectl", float64(weighted.most)),
		Peers: []measure{one(fmt.Sprintf("%d units each", weightFixed), float64(fixed.most))}}
	at.budget(at.Peers[0].Name, atLeast(2.4))
	touched := result{What: "what they touch together, at most", Unit: inBytes,
		Ours: one("leasectl", float64(weighted.peak)), Limit: atMost(weightUnits * weightUnit)}
	waits, err := measureSizes()
	return append([]result{at, touched}, waits...), err
}

// weighted runs the jobs once, each with the flags in asks.
func (w *world) weighted(ctx context.Context, asks ...string) (c crowd, err error) {
	config := w.fresh("config")
	text := fmt.Sprintf("resources:\n- {type: mem, units: %d, unit: 64Ki, unknown: %d, cost: {base: 128, per_item: 0.2, round_to: 32, min: 128}}\n", weightUnits, weightFixed)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return c, err
	}
	s, err := w.serve(ctx, "--config", config)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	var commands []*exec.Cmd
	stderr := make([]strings.Builder, weightJobs)
	for i := range weightJobs {
		args := append([]string{"exec", "--proxy", s.url, "--type", "mem", "--owner", fmt.Sprint("job-", i)}, asks...)
		cmd := exec.CommandContext(ctx, w.leasectl, append(args, "--", w.self, "-job", weightHold.String(), "-touch", fmt.Sprint(weightTouched*weightUnit))...)
		cmd.Env, cmd.Stderr = w.environment(), &stderr[i]
		commands = append(commands, cmd)
	}
	failed := make([]error, weightJobs)
	c, err = watchJobs(ctx, commands, 0, func(int, *os.Process) {}, func(i int, err error) {
		if err != nil {
			failed[i] = fmt.Errorf("job %d: %w: %s", i, err, stderr[i].String())
		}
	})
	return c, errors.Join(append(failed, err)...)
}
