// Package local starts and ends the local proxy: a `leasectl serve` on a socket in a state
// directory. The first command that needs the proxy starts it, and it stops by itself when
// nobody has needed it for a while. It starts and stops under the flock of local.lock. So at
// most one runs, and no command talks to a proxy that is stopping.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder/socket"
	"github.com/leasectl/leasectl/internal/process"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Proxy is the local proxy of a state directory.
type Proxy struct {
	Dir    string                           // the state directory, which must be there
	Pools  []Pool                           // that it must have; none: any
	Debugf func(format string, args ...any) // tells of each step; not nil
}

// Pool is a pool of a local proxy: Capacity leases, named by their type.
type Pool struct {
	Type     string
	Capacity int
}

// String returns p as --pool takes it: TYPE=N.
func (p Pool) String() string { return fmt.Sprintf("%s=%d", p.Type, p.Capacity) }

// Socket returns the path of the socket that the proxy listens on.
func (p Proxy) Socket() string { return filepath.Join(p.Dir, "local.sock") }

func (p Proxy) lock() string { return filepath.Join(p.Dir, "local.lock") }
func (p Proxy) data() string { return filepath.Join(p.Dir, "local") }
func (p Proxy) log() string  { return filepath.Join(p.Dir, "local.log") }

// lastPools is the file with the pools of the last proxy, one a line.
func (p Proxy) lastPools() string { return filepath.Join(p.Dir, "local.pools") }

const (
	// Idle is how long a local proxy stays without lease, waiter or connection: long
	// enough for the next step of a job, short enough not to be found on a machine that
	// nobody uses.
	Idle = 5 * time.Minute
	// maxLog is the size up to which the next proxy appends to a log, in bytes: some thousand
	// leases.
	maxLog = 1 << 20
	// maxStart bounds the start of a proxy, which takes milliseconds unless the machine
	// is very busy.
	maxStart = 20 * time.Second
)

// PoolsError says that the local proxy cannot have the pools that were asked for, or that
// nobody said which pools to start it with.
type PoolsError string

func (e PoolsError) Error() string { return string(e) }

func poolsErrorf(format string, args ...any) error { return PoolsError(fmt.Sprintf(format, args...)) }

// Ensure starts the local proxy unless it runs. It blocks until the proxy serves, 20 s at most.
// The error is or wraps a [PoolsError] if the proxy is not the one that was asked for. It is
// [proxyclient.Hopeless] if another try would not start one either.
func (p Proxy) Ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxStart)
	defer cancel()
	err := p.check(ctx)
	if !errors.Is(err, errNotRunning) {
		return err
	}
	return lockfile.WithLock(ctx, p.lock(), func() error {
		err := p.check(ctx) // another command may have been first
		if !errors.Is(err, errNotRunning) {
			return err
		}
		p.Debugf("no local proxy runs in %s: starting one", p.Dir)
		return p.start(ctx)
	})
}

// errNotRunning says that nothing listens on the socket of the local proxy.
var errNotRunning = errors.New("no local proxy runs")

// check returns nil if the local proxy runs and has the pools that are asked for, and
// errNotRunning if none runs.
func (p Proxy) check(ctx context.Context) error {
	if live, err := socket.Accepts(p.Socket()); err == nil && !live {
		return errNotRunning
	}
	short, done, err := socket.Short(p.Socket())
	if err != nil {
		return err
	}
	defer done()
	client, err := proxyclient.New(proxyclient.Options{URL: proxyclient.SocketAddress(short).String()})
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Health(ctx); err != nil {
		return fmt.Errorf("ask the local proxy on %s: %w", p.Socket(), err)
	}
	return p.checkPools(ctx, client)
}

// checkPools compares the pools that are asked for with those of the running proxy.
func (p Proxy) checkPools(ctx context.Context, client *proxyclient.Client) error {
	if len(p.Pools) == 0 {
		return nil
	}
	pools, err := client.Pools(ctx)
	if err != nil {
		return fmt.Errorf("ask the local proxy on %s for its pools: %w", p.Socket(), err)
	}
	running := make(map[string]int)
	for _, pool := range pools {
		running[pool.Type] = pool.Capacity
	}
	for _, want := range p.Pools {
		have, ok := running[want.Type]
		switch {
		case !ok:
			return poolsErrorf("--pool %v: the local proxy that runs on %s has no such pool: wait until it has stopped (%s after its last use), or use another $LEASECTL_STATE_DIR",
				want, p.Socket(), leaseapi.Duration(Idle))
		case have != want.Capacity:
			return poolsErrorf("--pool %v: the local proxy that runs on %s has %v: use that, or wait until it has stopped (%s after its last use)",
				want, p.Socket(), Pool{want.Type, have}, leaseapi.Duration(Idle))
		}
	}
	return nil
}

// start starts the local proxy and waits until it serves.
func (p Proxy) start(ctx context.Context) error {
	pools, err := p.poolsToStart()
	if err != nil {
		return proxyclient.Hopeless(err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program to start the local proxy with: %w", err)
	}
	if info, err := os.Stat(p.log()); err == nil && info.Size() > maxLog {
		os.Rename(p.log(), p.log()+".old") // so that it does not grow for ever
	}
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the local proxy's log: %w", err)
	}
	defer log.Close()
	args := []string{self, "serve", "--socket", p.Socket(), "--data", p.data(), "--local-of", p.Dir}
	for _, pool := range pools {
		args = append(args, "--pool", pool)
	}
	if _, err := process.StartDetached(ctx, args, Environment(), log); err != nil {
		err = fmt.Errorf("start the local proxy: %w (its log is %s)", err, p.log())
		if _, refused := errors.AsType[process.FailedError](err); refused {
			return proxyclient.Hopeless(err) // it ran, and says why it cannot serve
		}
		return err
	}
	if err := os.WriteFile(p.lastPools(), []byte(strings.Join(pools, "\n")+"\n"), 0o600); err != nil {
		p.Debugf("remember the pools of the local proxy: %v", err)
	}
	return nil
}

// poolsToStart returns the pools, as TYPE=N, of the proxy to start: those that are asked for,
// else those of the last proxy. It is an error if there are none: a proxy without pools would
// keep others from starting one with pools.
func (p Proxy) poolsToStart() ([]string, error) {
	if len(p.Pools) == 0 {
		text, err := os.ReadFile(p.lastPools())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the pools of the last local proxy: %w", err)
		}
		if pools := strings.Fields(string(text)); len(pools) > 0 {
			return pools, nil
		}
		return nil, poolsErrorf("--proxy local: none runs in %s: say which pools it is to be started with, such as --pool install=2", p.Dir)
	}
	var pools []string
	for _, pool := range p.Pools {
		pools = append(pools, pool.String())
	}
	return pools, nil
}

// Environment returns the environment of a background process: the variables that each program
// needs, and the named ones, as far as they are set. The process outlives the job that starts
// it, so it gets none of the other settings of that job.
func Environment(names ...string) (env []string) {
	for _, name := range append([]string{"PATH", "HOME", "LANG", "TZ", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR"}, names...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
