package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
)

// contender is a command whose whole run is measured.
type contender struct {
	name    string
	args    []string
	env     []string
	missing string // why it cannot be run
	every   int    // run a slow command only in one of so many rounds; zero: in each

	wall, peak []float64 // seconds and bytes, one of each per run
}

// race runs the contenders in turns, in a random order in each round: one may leave something
// behind, such as a busy disk, that must not slow the same contender each time.
func (w *world) race(ctx context.Context, rounds int, all []*contender) error {
	for i := range rounds + 1 {
		for _, at := range rand.Perm(len(all)) {
			c := all[at]
			if c.missing != "" || i%max(c.every, 1) != 0 {
				continue
			}
			wall, peak, err := w.cost(ctx, c.env, c.args...)
			if err != nil {
				return err
			}
			if i > 0 || c.every > 0 { // the first round only reads the files into memory
				c.wall, c.peak = append(c.wall, wall), append(c.peak, peak)
			}
		}
	}
	return nil
}

// cost runs a command and returns its wall time in seconds and its peak memory
// in bytes.
func (w *world) cost(ctx context.Context, env []string, args ...string) (wall, peak float64, err error) {
	program, err := exec.LookPath(args[0])
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "launch"), append([]string{program}, args[1:]...)...)
	cmd.Env = append(w.environment(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, strings.TrimSpace(stderr.String()))
	}
	var nanos float64
	if _, err := fmt.Sscan(string(out), &nanos, &peak); err != nil {
		return 0, 0, fmt.Errorf("launch printed %q: %w", out, err)
	}
	return nanos / 1e9, peak, nil
}

// compare makes a result of the contenders. The first is leasectl.
func compare(what string, u unit, values func(*contender) []float64, all []*contender) result {
	var measures []measure
	for _, c := range all {
		measures = append(measures, medianUnless(c.missing, c.name, values(c)))
	}
	return resultOf(what, u, measures)
}

func wallTime(c *contender) []float64   { return c.wall }
func peakMemory(c *contender) []float64 { return c.peak }
