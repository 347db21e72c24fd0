package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

const localRounds = 30

// measureLocal measures the cost of the local proxy for a command that has to start it, and for
// a command that finds it running.
func measureLocal(ctx context.Context, w *world) (_ []result, err error) {
	s, err := w.serve(ctx, "--pool", "t=1")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	var cold, warm, there []float64
	for range localRounds {
		state := w.fresh("state")
		env := []string{"LEASECTL_STATE_DIR=" + state}
		args := []string{w.leasectl, "exec", "--proxy", "local", "--pool", "t=1", "--type", "t", "--", "true"}
		first, _, err := w.cost(ctx, env, args...)
		if err != nil {
			return nil, errors.Join(err, stopLocal(state))
		}
		second, _, err := w.cost(ctx, env, args...)
		if err := errors.Join(err, stopLocal(state)); err != nil {
			return nil, err
		}
		third, _, err := w.cost(ctx, nil, w.leasectl, "exec", "--proxy", s.url, "--type", "t", "--", "true")
		if err != nil {
			return nil, err
		}
		cold, warm, there = append(cold, first), append(warm, second), append(there, third)
	}
	beside := func(what string, values []float64) result {
		return result{What: what, Unit: inSeconds, Ours: median("leasectl", values), Peers: []measure{median("leasectl, --proxy http://…", there)}}
	}
	return []result{
		beside("exec --proxy local -- true, none runs yet", cold),
		beside("exec --proxy local -- true, it runs", warm),
	}, nil
}

var localProcess = regexp.MustCompile(`\(process ([0-9]+)\)`)

// stopLocal ends the proxy of a state directory, which would go on for minutes.
func stopLocal(state string) error {
	text, err := os.ReadFile(filepath.Join(state, "local.log"))
	if err != nil {
		return fmt.Errorf("find the local proxy: %w", err)
	}
	found := localProcess.FindSubmatch(text)
	if found == nil {
		return fmt.Errorf("find the local proxy: its log says %q", text)
	}
	pid, err := strconv.Atoi(string(found[1]))
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGTERM)
}
