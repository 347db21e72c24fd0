package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// measureExec measures the cost of leasectl around a command that does nothing.
func measureExec(ctx context.Context, w *world) (_ []result, err error) {
	s, err := w.serve(ctx, "--pool", "t=1")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	lock := contender{name: "etcdctl lock", missing: lacks("etcd", "etcdctl"), every: 2}
	if lock.missing == "" {
		var e *server
		if e, err = w.etcd(ctx); err != nil { // not :=, since the result err gets how etcd ended
			return nil, err
		}
		defer func() { err = errors.Join(err, e.stop()) }()
		lock.args = []string{"etcdctl", "--endpoints", e.url, "lock", "bench", "true"}
		lock.env = []string{"ETCDCTL_API=3"}
	}
	all := []*contender{
		{name: "leasectl", args: []string{w.leasectl, "exec", "--proxy", s.url, "--type", "t", "--", "true"}},
		{name: "floor", args: []string{w.floor(), s.url, "t", "true"}},
		{name: "bare cobra", args: []string{filepath.Join(w.bin, "cobra"), "exec", "--type", "t", "--", "true"}},
		{name: "flock", args: []string{"flock", w.fresh("flock"), "true"}, missing: lacks("flock")},
		&lock,
		{name: "sem", args: []string{"sem", "--id", "bench", "--fg", "true"}, missing: lacks("sem"), every: 5},
	}
	if err := w.race(ctx, 300, all); err != nil {
		return nil, err
	}
	wall := compare("exec -- true, wall time", inSeconds, wallTime, all)
	wall.budget("floor", atMost(1.6).missedTo(1.85))
	wall.budget("etcdctl lock", atMost(0.45).missedTo(0.52))
	peak := compare("exec -- true, peak memory", inBytes, peakMemory, all)
	peak.budget("floor", atMost(2).missedTo(2.15))
	return []result{wall, peak}, nil
}

// measureExecTLS measures how much TLS and a token add to exec.
func measureExecTLS(ctx context.Context, w *world) (_ []result, err error) {
	plain, err := w.serve(ctx, "--pool", "t=1")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plain.stop()) }()
	secure, err := w.serveTLS(ctx, "--pool", "t=1")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, secure.stop()) }()
	command := func(url string) []string {
		return []string{w.leasectl, "exec", "--proxy", url, "--type", "t", "--", "true"}
	}
	all := []*contender{
		{name: "leasectl", args: command(secure.url), env: secure.env},
		{name: "without TLS", args: command(plain.url)},
		{name: "floor, without TLS", args: []string{w.floor(), plain.url, "t", "true"}},
	}
	if err := w.race(ctx, 100, all); err != nil {
		return nil, err
	}
	return []result{compare("exec -- true over TLS with a token, wall time", inSeconds, wallTime, all)}, nil
}

// floor is the least that a Go program can do; see peers/floor.
func (w *world) floor() string { return filepath.Join(w.bin, "floor") }

// measureSize measures the size of the binary.
func measureSize(_ context.Context, w *world) ([]result, error) {
	size := func(name, path string) (measure, error) {
		info, err := os.Stat(path)
		if err != nil {
			return measure{}, err
		}
		return one(name, float64(info.Size())), nil
	}
	r := result{What: "binary, server included", Unit: inBytes}
	var err error
	if r.Ours, err = size("leasectl", w.leasectl); err != nil {
		return nil, err
	}
	for _, p := range []struct{ name, program string }{{"floor", "floor"}, {"bare cobra", "cobra"}} {
		m, err := size(p.name, filepath.Join(w.bin, p.program))
		if err != nil {
			return nil, err
		}
		r.Peers = append(r.Peers, m)
	}
	return []result{r}, nil
}

// measurePair measures the cost of a lease in a bash script, with leasectl and with the
// alternatives.
func measurePair(ctx context.Context, w *world) (_ []result, err error) {
	s, err := w.serve(ctx, "--pool", "t=1")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	const script = `h=$("$0" acquire --type t) && "$0" release --handle "$h"`
	all := []*contender{
		{
			name: "leasectl", args: []string{"bash", "-c", script, w.leasectl},
			env: []string{"LEASE_PROXY_SERVER_URL=" + s.url},
		},
		{
			name: "curl + jq + flock", args: []string{filepath.Join(w.peers, "pair.sh"), s.url, "t", w.fresh("pair")},
			missing: lacks("curl", "jq", "flock"),
		},
		// The lower bound for any program made with cobra.
		{name: "bare cobra, twice", args: []string{"bash", "-c", `h=$("$0") && "$0"`, filepath.Join(w.bin, "cobra")}},
	}
	if err := w.race(ctx, 200, all); err != nil {
		return nil, err
	}
	r := compare("acquire and release from a fresh bash", inSeconds, wallTime, all)
	r.budget("bare cobra, twice", atMost(2.3).missedTo(2.6))
	r.budget("curl + jq + flock", atMost(0.18).missedTo(0.28))
	return []result{r}, nil
}
