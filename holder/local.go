package holder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
	"github.com/leasectl/leasectl/trap/process"
)

// localProxy is a `leasectl serve` on a socket in a state directory, started by
// the first command that needs it and stopped by itself when nobody has needed
// it for a while. Starting and stopping happen under the flock of local.lock, so
// that there is one at most and nobody talks to one that ends.
type localProxy struct {
	dir    string
	pools  []LocalPool // that it must have; none: any
	report Reporter
}

// LocalPool is a pool of a local proxy: Capacity leases, named by their type.
type LocalPool struct {
	Type     string
	Capacity int
}

// String returns p as --pool takes it: TYPE=N.
func (p LocalPool) String() string { return fmt.Sprintf("%s=%d", p.Type, p.Capacity) }

func (l localProxy) socket() string { return filepath.Join(l.dir, "local.sock") }
func (l localProxy) lock() string   { return filepath.Join(l.dir, "local.lock") }
func (l localProxy) data() string   { return filepath.Join(l.dir, "local") }
func (l localProxy) log() string    { return filepath.Join(l.dir, "local.log") }

// lastPools is the file with the pools of the last local proxy, one a line.
func (l localProxy) lastPools() string { return filepath.Join(l.dir, "local.pools") }

const (
	// LocalIdle is how long a local proxy stays without lease, waiter or
	// connection: long enough for the next step of a job, short enough not
	// to be found on a machine that nobody uses.
	LocalIdle = 5 * time.Minute
	// maxLocalLog is how large a log may be that the next local proxy goes on with:
	// some thousand leases, of which nobody wants to know for long.
	maxLocalLog = 1 << 20
	// localStart bounds the start of a local proxy, which takes milliseconds
	// unless the machine is very busy.
	localStart = 20 * time.Second
)

// ensure makes sure that the local proxy runs and is the one that was asked for. The
// error is [proxyclient.Hopeless] if none runs, and nobody knows its pools or the one
// that is started says why it cannot serve.
func (l localProxy) ensure(ctx context.Context) error {
	if err := makeStateDir(l.dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, localStart)
	defer cancel()
	err := l.check(ctx)
	if !errors.Is(err, errNoLocal) {
		return err
	}
	return lockfile.WithLock(ctx, l.lock(), func() error {
		err := l.check(ctx) // another may have been first
		if !errors.Is(err, errNoLocal) {
			return err
		}
		l.report.Debugf("no local proxy runs in %s: starting one", l.dir)
		return l.start(ctx)
	})
}

// errNoLocal says that nothing listens on the socket of the local proxy.
var errNoLocal = errors.New("no local proxy runs")

// check asks the local proxy who it is.
func (l localProxy) check(ctx context.Context) error {
	short, done, err := shortSocket(l.socket())
	if err != nil {
		return err
	}
	defer done()
	if live, err := accepts(short); err == nil && !live {
		return errNoLocal
	}
	client, err := proxyclient.New(proxyclient.Options{URL: proxyclient.SocketURL(short)})
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Health(ctx); err != nil {
		return fmt.Errorf("ask the local proxy on %s: %w", l.socket(), err)
	}
	return l.checkPools(ctx, client)
}

// checkPools compares the pools that the user named with those that the running
// proxy has.
func (l localProxy) checkPools(ctx context.Context, client *proxyclient.Client) error {
	if len(l.pools) == 0 {
		return nil
	}
	pools, err := client.Pools(ctx)
	if err != nil {
		return fmt.Errorf("ask the local proxy on %s for its pools: %w", l.socket(), err)
	}
	running := make(map[string]int)
	for _, p := range pools {
		running[p.Type] = p.Capacity
	}
	for _, want := range l.pools {
		have, ok := running[want.Type]
		switch {
		case !ok:
			return invalidf("--pool %v: the local proxy that runs on %s has no such pool: wait until it has stopped (%s after its last use), or use another $LEASECTL_STATE_DIR",
				want, l.socket(), leaseapi.Duration(LocalIdle))
		case have != want.Capacity:
			return invalidf("--pool %v: the local proxy that runs on %s has %v: use that, or wait until it has stopped (%s after its last use)",
				want, l.socket(), LocalPool{want.Type, have}, leaseapi.Duration(LocalIdle))
		}
	}
	return nil
}

// start starts the local proxy and waits until it serves.
func (l localProxy) start(ctx context.Context) error {
	pools, err := l.poolsToStart()
	if err != nil {
		return proxyclient.Hopeless(err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program to start the local proxy with: %w", err)
	}
	if info, err := os.Stat(l.log()); err == nil && info.Size() > maxLocalLog {
		os.Rename(l.log(), l.log()+".old") // else it goes on growing
	}
	log, err := os.OpenFile(l.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the local proxy's log: %w", err)
	}
	defer log.Close()
	args := []string{self, "serve", "--socket", l.socket(), "--data", l.data(), "--local-of", l.dir}
	for _, p := range pools {
		args = append(args, "--pool", p)
	}
	if _, err := process.StartDetached(ctx, args, localEnvironment(), log); err != nil {
		err = fmt.Errorf("start the local proxy: %w (its log is %s)", err, l.log())
		if _, refused := errors.AsType[process.FailedError](err); refused {
			return proxyclient.Hopeless(err) // it ran, and says why it cannot serve
		}
		return err
	}
	if err := os.WriteFile(l.lastPools(), []byte(strings.Join(pools, "\n")+"\n"), 0o600); err != nil {
		l.report.Debugf("remember the pools of the local proxy: %v", err)
	}
	return nil
}

// poolsToStart are the pools, as TYPE=N, of the proxy to start: those that were
// named, else those of the one before. A proxy without pools would be of no use,
// and in the way of the one that is meant.
func (l localProxy) poolsToStart() ([]string, error) {
	if len(l.pools) == 0 {
		text, err := os.ReadFile(l.lastPools())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the pools of the last local proxy: %w", err)
		}
		if pools := strings.Fields(string(text)); len(pools) > 0 {
			return pools, nil
		}
		return nil, invalidf("--proxy local: none runs in %s: say which pools it is to be started with, such as --pool install=2", l.dir)
	}
	var pools []string
	for _, p := range l.pools {
		pools = append(pools, p.String())
	}
	return pools, nil
}

// localEnvironment is the environment of the local proxy. It outlives the job
// that started it, so it takes none of that job's settings along.
func localEnvironment() []string {
	return environment("PATH", "HOME", "LANG", "TZ", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR")
}

// environment returns those of the named variables that are set.
func environment(names ...string) (env []string) {
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// LocalEnd takes a local proxy out of sight before it stops.
type LocalEnd struct {
	proxy  localProxy
	ours   fs.FileInfo // of the socket
	unlock func()
}

// NewLocalEnd returns the end of the local proxy of a state directory, which the
// caller is.
func NewLocalEnd(stateDir string) *LocalEnd { return &LocalEnd{proxy: localProxy{dir: stateDir}} }

// Listening notes which socket is this proxy's own. Call it when the proxy
// listens.
func (e *LocalEnd) Listening() (err error) {
	e.ours, err = os.Lstat(e.proxy.socket())
	return err
}

// Hide takes the lock under which local proxies start, which it keeps until Close, and
// moves the socket away. Commands that look for the proxy from now on wait for the lock
// and start a new one. Hide fails if somebody is about to use this proxy. unhide undoes
// it, if the proxy does not stop after all.
//
// A proxy that nobody can find, since its socket or the whole state directory was
// removed, is hidden already. Another proxy that has taken its place stays.
func (e *LocalEnd) Hide() (unhide func(), err error) {
	unlock, err := lockfile.Lock(e.proxy.lock())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return func() {}, nil
	case err != nil:
		return nil, err
	}
	hidden, err := e.moveSocket()
	if err != nil {
		unlock()
		return nil, fmt.Errorf("hide the socket: %w", err)
	}
	e.unlock = func() {
		if hidden != "" {
			os.Remove(hidden)
		}
		unlock()
	}
	return func() {
		if hidden != "" {
			os.Rename(hidden, e.proxy.socket())
		}
		e.unlock = nil
		unlock()
	}, nil
}

// moveSocket moves this proxy's socket to where nobody looks for it; "" if it is
// not at its place.
func (e *LocalEnd) moveSocket() (hidden string, err error) {
	socket := e.proxy.socket()
	switch now, err := os.Lstat(socket); {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(e.ours, now):
		return "", nil
	case err != nil:
		return "", err
	}
	hidden = socket + ".ending"
	return hidden, os.Rename(socket, hidden)
}

// Close ends what Hide began. Call it when the socket's listener is closed.
func (e *LocalEnd) Close() {
	if e.unlock != nil {
		e.unlock()
	}
}
