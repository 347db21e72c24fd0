// Package keeper is the process in the background that looks after a lease: it renews the lease as
// long as an owner process lives, and gives it back when that process ends, or at a time that was set.
// A command starts a keeper, and finds it by a socket ([Keepers]); leasectl keeper is it ([Keeper]).
//
// It guarantees:
//
//   - A keeper acts on its own request only. One that is left over does nothing to the next lease of the
//     handle.
//   - A lease that somebody else gave back is not given back again: [Keepers.Dismiss] ends its keeper.
//   - A socket without a process is a keeper that was killed: see [Keepers.Killed].
//
// The keeper of the service of a shared lease is in holder/shared. It is started and found as the others.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder/dial"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	"github.com/leasectl/leasectl/internal/holder/local"
	"github.com/leasectl/leasectl/internal/holder/socket"
	"github.com/leasectl/leasectl/internal/holder/tokenfrom"
	"github.com/leasectl/leasectl/internal/holder/usage"
	"github.com/leasectl/leasectl/internal/process"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Keepers starts background keepers, and finds the keeper of a request by its socket, which is
// named after the request.
type Keepers struct {
	StateDir string
	Dialer   *dial.Dialer
	Owner    string // the owner that the user typed; "" is none
	Debugf   func(format string, args ...any)
}

func (k *Keepers) dir() string { return filepath.Join(k.StateDir, "keepers") }

// socket returns the path of the socket of a request's keeper; "" if there can be none. The text may come
// from a stranger's handle.
func (k *Keepers) socket(request string) string {
	if leaseapi.CheckRequestID(request) != nil {
		return ""
	}
	return filepath.Join(k.dir(), request)
}

// Space names the PID namespace of this process; "" where there are none.
func Space() string {
	space, _ := os.Readlink("/proc/self/ns/pid")
	return space
}

// startTime bounds the start of a keeper, which takes milliseconds unless the machine is
// very busy. It is shorter than the life of a provisional grant.
const startTime = 20 * time.Second

// Start starts a keeper for the lease of a handle. It blocks until the keeper watches the owner
// process; an ownerPID of 0 is none.
func (k *Keepers) Start(ctx context.Context, handle lockfile.Handle, request string, ownerPID int) error {
	args := []string{"--handle", handle.Path(), "--request", request}
	if ownerPID != 0 {
		args = append(args, "--owner-pid", strconv.Itoa(ownerPID))
	}
	pid, err := k.Launch(ctx, "start a keeper", nil, args...)
	if err != nil {
		return err
	}
	failpoint.Here("keeper-started")
	k.Debugf("process %d keeps the lease", pid)
	return handle.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.RequestID == request && tx.State == lockfile.HandleHeld {
			tx.KeeperPID = pid
		}
		return nil
	})
}

// Launch starts this program as a keeper, and blocks until the keeper has what it looks after. args
// say what that is, and what says it in an error, such as "start a keeper". more is added to the keeper's environment.
func (k *Keepers) Launch(ctx context.Context, what string, more []string, args ...string) (pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the program to start a keeper with: %w", err)
	}
	if err := k.makeDir(); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	args, err = k.arguments(append([]string{self, "keeper"}, args...)...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	secret, err := k.secretFlags()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	more = append(secret, more...)
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	pid, err = process.StartDetached(ctx, args, append(k.environment(), more...), nil)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return pid, nil
}

// makeDir makes the directory of the sockets.
func (k *Keepers) makeDir() error {
	if err := lockfile.MakeStateDir(k.StateDir); err != nil {
		return err
	}
	return lockfile.MakeDir(k.dir())
}

// arguments adds to the command line of a keeper what every keeper is told. Its paths are
// absolute, since the keeper runs in another directory.
func (k *Keepers) arguments(args ...string) ([]string, error) {
	if k.Owner != "" {
		args = append(args, "--owner", k.Owner)
	}
	if err := k.CheckFiles(); err != nil {
		return nil, err
	}
	for _, file := range k.files() {
		path, err := filepath.Abs(file.path)
		if err != nil {
			return nil, err
		}
		args = append(args, file.flag, path)
	}
	return args, nil
}

// proxyVariable is the variable of --proxy. A keeper has it only if the user typed --proxy.
const proxyVariable = "LEASECTL_PROXY"

// secretFlags returns the variables of flags whose values may have secrets. Everybody on the machine
// can read a command line.
func (k *Keepers) secretFlags() (env []string, err error) {
	if k.Dialer.Given {
		proxy, err := k.Dialer.Name(k.Dialer.URL)
		if err != nil {
			return nil, err
		}
		env = append(env, proxyVariable+"="+proxy)
	}
	from := k.Dialer.TokenFrom
	if from == "" {
		return env, nil
	}
	if !tokenfrom.IsGitHub(from) {
		// The command may name files of the directory that we are in.
		dir, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		from = "cd '" + strings.ReplaceAll(dir, "'", `'\''`) + "' || exit\n" + from
	}
	return append(env, tokenfrom.Variable+"="+from), nil
}

// flagFile is a file that a flag names.
type flagFile struct{ flag, path string }

// files are the files that a keeper reads.
func (k *Keepers) files() []flagFile {
	return slices.DeleteFunc([]flagFile{{"--token-file", k.Dialer.TokenFile}, {"--ca", k.Dialer.CAFile}},
		func(f flagFile) bool { return f.path == "" })
}

// CheckFiles refuses files that can be read only once, such as pipes: a keeper is another
// process, and reads them again.
func (k *Keepers) CheckFiles() error {
	for _, file := range k.files() {
		if info, err := os.Stat(file.path); err == nil && !info.Mode().IsRegular() {
			return usage.Errorf("%s %s: a keeper reads that itself, and can do so only with a file", file.flag, file.path)
		}
	}
	return nil
}

// environment returns the environment of a local proxy, and the variables for the way to a
// proxy elsewhere. A command that gives tokens may need any variable of the job.
func (k *Keepers) environment() []string {
	if from := k.Dialer.TokenFrom; from != "" && !tokenfrom.IsGitHub(from) {
		ours := func(v string) bool {
			return strings.HasPrefix(v, "LEASECTL_") || strings.HasPrefix(v, "LEASE_PROXY_SERVER_URL=")
		}
		return append(slices.DeleteFunc(os.Environ(), ours), "LEASECTL_STATE_DIR="+k.StateDir)
	}
	names := append([]string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", tokenfrom.GitHubURL, tokenfrom.GitHubToken}, failpoint.Variables...)
	return append(local.Environment(names...), "LEASECTL_STATE_DIR="+k.StateDir)
}

// liveness tells whether a request has a keeper.
type liveness int

const (
	none   liveness = iota // there is none, or it has done its work
	alive                  // it runs, and now looks at its handle
	killed                 // it ended without removing its socket
)

// liveness looks for the keeper of a request. It connects to the keeper, which makes a live keeper
// look at its handle again.
func (k *Keepers) liveness(request string) liveness {
	path := k.socket(request)
	if _, err := os.Lstat(path); err != nil { // as of the path ""
		return none
	}
	if accepts, err := socket.Accepts(path); accepts || err != nil {
		return alive
	}
	if _, err := os.Lstat(path); err != nil {
		return none // it has just ended
	}
	return killed
}

// Wake has the keeper of a request look at its handle again, and tells whether there is a
// keeper.
func (k *Keepers) Wake(request string) bool { return k.liveness(request) == alive }

// Killed tells whether the keeper of a request was killed.
func (k *Keepers) Killed(request string) bool { return k.liveness(request) == killed }

// Dismiss ends the keeper of a request whose lease was given back: its socket is removed before the
// connection that wakes it ends.
func (k *Keepers) Dismiss(request string) {
	path := k.socket(request)
	if _, err := os.Lstat(path); err != nil {
		return
	}
	socket.While(path, func() { os.Remove(path) })
}

// dismissed tells whether the keeper of a request, which this process is, was dismissed. home is the
// directory in which it listens: a socket that is gone with that was not removed by [Keepers.Dismiss],
// even if there is another of its name by now.
func (k *Keepers) dismissed(request string, home os.FileInfo) bool {
	_, err := os.Lstat(k.socket(request))
	now, gone := os.Lstat(k.dir())
	return errors.Is(err, fs.ErrNotExist) && gone == nil && os.SameFile(home, now)
}

// touch makes the socket of a keeper that has renewed its lease as old as this renewal.
func (k *Keepers) touch(request string) {
	now := time.Now()
	os.Chtimes(k.socket(request), now, now) // without it, sweep only removes the socket sooner
}

// Sweep removes the sockets of killed keepers that last renewed, or were started, before old,
// and returns their paths.
func (k *Keepers) Sweep(old time.Time) (removed []string) {
	files, _ := os.ReadDir(k.dir())
	for _, s := range files {
		info, err := s.Info()
		if err != nil || s.Type() != fs.ModeSocket || info.ModTime().After(old) || k.liveness(s.Name()) != killed {
			continue
		}
		if path := k.socket(s.Name()); os.Remove(path) == nil {
			removed = append(removed, path)
		}
	}
	return removed
}

// Listen opens the socket of this process, the keeper of a request. changed receives when somebody has
// connected to it: then what the keeper looks after may have changed.
func (k *Keepers) Listen(ctx context.Context, request string, changed chan<- struct{}) (stop func(), err error) {
	if err := leaseapi.CheckRequestID(request); err != nil {
		return nil, err // it would be a socket without a path
	}
	l, closeSocket, err := socket.Listen(ctx, k.socket(request))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		hear(ctx, l, changed)
	}()
	return func() { cancel(); closeSocket(); <-done }, nil
}

// acceptPause is the pause after a connection that could not be accepted, as when the machine
// has too many open files: an immediate next try would fail, too.
const acceptPause = time.Second

// hearTime bounds how long a connection stays open: whoever dismisses the keeper removes its socket
// before it closes the connection.
const hearTime = time.Second

// hear tells changed of the end of each connection to l, even of one that cannot be accepted, until
// ctx ends.
func hear(ctx context.Context, l net.Listener, changed chan<- struct{}) {
	for ctx.Err() == nil {
		conn, err := l.Accept()
		if err != nil {
			tell(changed)
			proxyclient.Sleep(ctx, acceptPause)
			continue
		}
		conn.SetReadDeadline(time.Now().Add(hearTime))
		conn.Read(make([]byte, 1))
		conn.Close()
		tell(changed)
	}
}

// tell sends to changed, unless its receiver is about to look anyway.
func tell(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}
