package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
	"github.com/leasectl/leasectl/trap/process"
)

// The local proxy is a `leasectl serve` on a socket in the state directory,
// started by whoever needs it first and stopped by itself when nobody has
// needed it for a while. Starting and stopping happen under the flock of
// local.lock, so that there is one at most and nobody talks to one that ends.

func localSocket(dir string) string { return filepath.Join(dir, "local.sock") }
func localLock(dir string) string   { return filepath.Join(dir, "local.lock") }
func localData(dir string) string   { return filepath.Join(dir, "local") }
func localLog(dir string) string    { return filepath.Join(dir, "local.log") }

const (
	// localIdle is how long a local proxy stays without lease, waiter or
	// connection: long enough for the next step of a job, short enough not
	// to be found on a machine that nobody uses.
	localIdle = 5 * time.Minute
	// localStart bounds the start of a local proxy, which takes milliseconds
	// unless the machine is very busy.
	localStart = 20 * time.Second
)

// ensureLocal makes sure that the local proxy of dir runs and is the one that
// was asked for.
func (a *app) ensureLocal(ctx context.Context, dir string) error {
	if err := lockfile.MakeDir(dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, localStart)
	defer cancel()
	err := a.checkLocal(ctx, dir)
	if !errors.Is(err, errNoLocal) {
		return err
	}
	return lockfile.WithLock(ctx, localLock(dir), func() error {
		err := a.checkLocal(ctx, dir) // another may have been first
		if !errors.Is(err, errNoLocal) {
			return err
		}
		a.debugf("no local proxy runs in %s: starting one", dir)
		return a.startLocal(ctx, dir)
	})
}

// errNoLocal says that nothing listens on the socket of the local proxy.
var errNoLocal = errors.New("no local proxy runs")

// checkLocal asks the local proxy who it is.
func (a *app) checkLocal(ctx context.Context, dir string) error {
	socket := localSocket(dir)
	short, done, err := shortSocket(socket)
	if err != nil {
		return err
	}
	defer done()
	if !listens(short) {
		return errNoLocal
	}
	client, err := proxyclient.New(proxyclient.Options{URL: "unix://" + short})
	if err != nil {
		return err
	}
	defer client.Close()
	health, err := client.Health(ctx)
	if err != nil {
		return fmt.Errorf("ask the local proxy on %s: %w", socket, err)
	}
	if health.Wire != leaseapi.Wire {
		return fmt.Errorf("the local proxy on %s is leasectl %s and speaks wire %d, this one is %s and speaks %d: use the same leasectl, or wait %s after its last use until it stops",
			socket, health.Version, health.Wire, version(), leaseapi.Wire, shortDuration(localIdle))
	}
	return a.checkLocalPools(ctx, client, socket)
}

// checkLocalPools compares the pools that --pool names with those that the
// running proxy has.
func (a *app) checkLocalPools(ctx context.Context, client *proxyclient.Client, socket string) error {
	if len(a.proxy.pools) == 0 {
		return nil
	}
	pools, err := client.Pools(ctx)
	if err != nil {
		return fmt.Errorf("ask the local proxy on %s for its pools: %w", socket, err)
	}
	running := make(map[string]int)
	for _, p := range pools {
		running[p.Type] = p.Capacity
	}
	for _, want := range a.proxy.pools {
		have, ok := running[want.typ]
		switch {
		case !ok:
			return usagef("--pool %s=%d: the local proxy that runs on %s has no such pool: wait until it has stopped (%s after its last use), or use another $LEASECTL_STATE_DIR",
				want.typ, want.capacity, socket, shortDuration(localIdle))
		case have != want.capacity:
			return usagef("--pool %s=%d: the local proxy that runs on %s has %s=%d: use that, or wait until it has stopped (%s after its last use)",
				want.typ, want.capacity, socket, want.typ, have, shortDuration(localIdle))
		}
	}
	return nil
}

// startLocal starts the local proxy and waits until it serves.
func (a *app) startLocal(ctx context.Context, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program to start the local proxy with: %w", err)
	}
	log, err := os.OpenFile(localLog(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the local proxy's log: %w", err)
	}
	defer log.Close()
	args := []string{self, "serve", "--socket", localSocket(dir), "--data", localData(dir), "--local-of", dir}
	for _, p := range a.proxy.pools {
		args = append(args, "--pool", fmt.Sprintf("%s=%d", p.typ, p.capacity))
	}
	if _, err := process.StartDetached(ctx, args, localEnvironment(), log); err != nil {
		return fmt.Errorf("start the local proxy: %w (its log is %s)", err, localLog(dir))
	}
	return nil
}

// localEnvironment is the environment of the local proxy. It outlives the job
// that started it, so it takes none of that job's settings along.
func localEnvironment() []string {
	var kept []string
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			kept = append(kept, name+"="+value)
		}
	}
	return kept
}
