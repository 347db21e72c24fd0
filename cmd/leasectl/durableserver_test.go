package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// durableServer is a `leasectl serve` with a store, to be killed and started again.
type durableServer struct {
	t       *testing.T
	program string
	args    []string
	client  *proxyclient.Client
	log     liveLog
	cmd     *exec.Cmd
}

func newDurableServer(t *testing.T, program string, args ...string) *durableServer {
	t.Helper()
	dir := shortDir(t)
	socket := filepath.Join(dir, "s")
	args = append([]string{"serve", "--socket", socket, "--data", filepath.Join(dir, "data")}, args...)
	r := &durableServer{t: t, program: program, args: args, client: newClient(t, "unix://"+socket)}
	r.start()
	t.Cleanup(func() { r.cmd.Process.Kill(); r.cmd.Wait() })
	return r
}

// start starts the server, and returns when it answers.
func (r *durableServer) start() {
	r.t.Helper()
	r.cmd = exec.Command(r.program, r.args...)
	r.cmd.Stderr = &r.log
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.pool()
}

// restart kills the server and starts it again.
func (r *durableServer) restart() {
	r.t.Helper()
	r.cmd.Process.Kill()
	r.cmd.Wait()
	r.start()
}

func (r *durableServer) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

// pool asks the server for its first pool.
func (r *durableServer) pool() (pool leaseapi.Pool) {
	r.t.Helper()
	await(r.t, &r.log, "the server to answer", func() bool {
		pools, err := r.client.Pools(r.context())
		if err == nil {
			pool = pools[0]
		}
		return err == nil
	})
	return pool
}

// hold acquires a lease and confirms it.
func (r *durableServer) hold(ttl time.Duration) []leaseapi.Lease {
	r.t.Helper()
	g, err := r.client.Acquire(r.context(), proxyclient.Request{Type: r.pool().Type, Count: 1, Owner: "holder", TTL: ttl, Wait: patience})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.client.Renew(r.context(), g.Leases, 0); err != nil {
		r.t.Fatal(err)
	}
	return g.Leases
}

func (r *durableServer) release(leases []leaseapi.Lease, delay time.Duration) {
	r.t.Helper()
	req := leaseapi.ReleaseRequest{Leases: leases, Delay: leaseapi.Duration(delay)}
	if _, err := r.client.Release(r.context(), req); err != nil {
		r.t.Fatal(err)
	}
}

// awaitStored waits until the server has stored the requests of all owners. The server stores
// waiting requests a moment after they come, and the directory has them before they are committed.
// So awaitStored also makes a change, since the answer to a change comes after the commit.
func (r *durableServer) awaitStored(owners []string) {
	r.t.Helper()
	await(r.t, &r.log, "all owners to be stored", func() bool {
		var stored []byte
		files, _ := filepath.Glob(filepath.Join(filepath.Dir(r.args[2]), "data", "*"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			stored = append(stored, text...)
		}
		return !slices.ContainsFunc(owners, func(owner string) bool { return !bytes.Contains(stored, []byte(`"`+owner+`"`)) })
	})
	typ := r.pool().Type
	if _, err := r.client.Pause(r.context(), typ, "to commit what waits"); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.client.Resume(r.context(), typ); err != nil {
		r.t.Fatal(err)
	}
}
