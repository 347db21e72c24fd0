package clitest

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

// DurableServer is a `leasectl serve` with a store, to be killed and started again.
type DurableServer struct {
	t       *testing.T
	Program string
	Socket  string // its path
	Dir     string // has the socket, and the store unless it is in a database
	Args    []string
	Client  *proxyclient.Client
	Log     LiveLog
	Cmd     *exec.Cmd // of the last start
}

// NewDurableServer starts a server with further arguments, which name the pools. It is killed when
// the test ends.
func NewDurableServer(t *testing.T, program string, args ...string) *DurableServer {
	t.Helper()
	dir := ShortDir(t)
	socket := filepath.Join(dir, "s")
	args = append([]string{"serve", "--socket", socket, "--data", filepath.Join(dir, "data")}, args...)
	r := &DurableServer{t: t, Program: program, Socket: socket, Dir: dir, Args: args, Client: NewClient(t, "unix://"+socket)}
	t.Cleanup(func() {
		if r.Cmd.Process != nil { // it was started
			r.Cmd.Process.Kill()
			r.Cmd.Wait()
		}
	})
	r.Start()
	return r
}

// Start starts the server, and returns when it answers.
func (r *DurableServer) Start() {
	r.t.Helper()
	r.Cmd = exec.Command(r.Program, r.Args...)
	r.Cmd.Stderr = &r.Log
	if err := r.Cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.Pool()
}

// Restart kills the server and starts it again.
func (r *DurableServer) Restart() {
	r.t.Helper()
	r.Cmd.Process.Kill()
	r.Cmd.Wait()
	r.Start()
}

// Command returns leasectl with args, as a client of the server that keeps its state in stateDir.
func (r *DurableServer) Command(stateDir string, args ...string) *exec.Cmd {
	cmd := exec.Command(r.Program, args...)
	cmd.Env = append(os.Environ(), "LEASECTL_STATE_DIR="+stateDir, "LEASE_PROXY_SERVER_URL=unix://"+r.Socket)
	return cmd
}

// Context returns a context for a call, which ends after [Patience].
func (r *DurableServer) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	r.t.Cleanup(cancel)
	return ctx
}

// Pool asks the server for its first pool.
func (r *DurableServer) Pool() (pool leaseapi.Pool) {
	r.t.Helper()
	Await(r.t, &r.Log, "the server to answer", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		pools, err := r.Client.Pools(ctx)
		if err == nil {
			pool = pools[0]
		}
		return err == nil
	})
	return pool
}

// Hold acquires a lease and confirms it.
func (r *DurableServer) Hold(ttl time.Duration) []leaseapi.Lease {
	r.t.Helper()
	g, err := r.Client.Acquire(r.Context(), proxyclient.Request{Ask: leaseapi.Ask{Type: r.Pool().Type, Count: 1}, Owner: "holder", TTL: ttl, Wait: Patience})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.Client.Renew(r.Context(), g.Leases, 0); err != nil {
		r.t.Fatal(err)
	}
	return g.Leases
}

func (r *DurableServer) Release(leases []leaseapi.Lease, delay time.Duration) {
	r.t.Helper()
	req := leaseapi.ReleaseRequest{Leases: leases, Delay: leaseapi.Duration(delay)}
	if _, err := r.Client.Release(r.Context(), req); err != nil {
		r.t.Fatal(err)
	}
}

// AwaitStored waits until the server has stored the requests of all owners. The server stores
// waiting requests a moment after they come, and the directory has them before they are committed.
// So AwaitStored also makes a change, since the answer to a change comes after the commit.
func (r *DurableServer) AwaitStored(owners []string) {
	r.t.Helper()
	Await(r.t, &r.Log, "all owners to be stored", func() bool {
		var stored []byte
		files, _ := filepath.Glob(filepath.Join(r.Dir, "data", "*"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			stored = append(stored, text...)
		}
		return !slices.ContainsFunc(owners, func(owner string) bool { return !bytes.Contains(stored, []byte(`"`+owner+`"`)) })
	})
	typ := r.Pool().Type
	if _, err := r.Client.Pause(r.Context(), typ, "to commit what waits"); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.Client.Resume(r.Context(), typ); err != nil {
		r.t.Fatal(err)
	}
}
