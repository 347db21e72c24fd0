package holder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/holder/dial"
	"github.com/leasectl/leasectl/holder/failpoint"
	"github.com/leasectl/leasectl/holder/local"
	"github.com/leasectl/leasectl/holder/socket"
	"github.com/leasectl/leasectl/holder/tokenfrom"
	"github.com/leasectl/leasectl/holder/usage"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/trap/process"
)

// keepers starts background keepers, and finds the keeper of a request by its socket, which is
// named after the request.
type keepers struct {
	stateDir string
	dialer   *dial.Dialer
	owner    string // the owner that the user typed; "" is none
	report   Reporter
}

func (k *keepers) dir() string                  { return filepath.Join(k.stateDir, "keepers") }
func (k *keepers) socket(request string) string { return filepath.Join(k.dir(), request) }

// keeperStart bounds the start of a keeper, which takes milliseconds unless the machine is
// very busy. It is shorter than the life of a provisional grant.
const keeperStart = 20 * time.Second

// start starts a keeper for the lease of a handle. It blocks until the keeper watches the owner
// process; an ownerPID of 0 is none.
func (k *keepers) start(ctx context.Context, handle lockfile.Handle, request string, ownerPID int) error {
	args := []string{"--handle", handle.Path(), "--request", request}
	if ownerPID != 0 {
		args = append(args, "--owner-pid", strconv.Itoa(ownerPID))
	}
	pid, err := k.launch(ctx, "start a keeper", nil, args...)
	if err != nil {
		return err
	}
	failpoint.Here("keeper-started")
	k.report.Debugf("process %d keeps the lease", pid)
	return handle.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.RequestID == request && tx.State == lockfile.StateHeld {
			tx.KeeperPID = pid
		}
		return nil
	})
}

// launch starts this program as a keeper, and blocks until the keeper has what it looks after. args
// say what that is, and what says it in an error, such as "start a keeper". more is added to the keeper's environment.
func (k *keepers) launch(ctx context.Context, what string, more []string, args ...string) (pid int, err error) {
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
	ctx, cancel := context.WithTimeout(ctx, keeperStart)
	defer cancel()
	pid, err = process.StartDetached(ctx, args, append(k.environment(), more...), nil)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return pid, nil
}

// makeDir makes the directory of the sockets.
func (k *keepers) makeDir() error {
	if err := lockfile.MakeStateDir(k.stateDir); err != nil {
		return err
	}
	return lockfile.MakeDir(k.dir())
}

// arguments adds to the command line of a keeper what every keeper is told. Its paths are
// absolute, since the keeper runs in another directory.
func (k *keepers) arguments(args ...string) ([]string, error) {
	if k.owner != "" {
		args = append(args, "--owner", k.owner)
	}
	if k.dialer.Given {
		proxy, err := k.dialer.Name(k.dialer.URL)
		if err != nil {
			return nil, err
		}
		args = append(args, "--proxy", proxy)
	}
	if from := k.dialer.TokenFrom; from != "" {
		if !tokenfrom.IsGitHub(from) {
			// The command may name files of the directory that we are in.
			dir, err := os.Getwd()
			if err != nil {
				return nil, err
			}
			from = "cd '" + strings.ReplaceAll(dir, "'", `'\''`) + "' || exit\n" + from
		}
		args = append(args, "--token-from", from)
	}
	if err := k.checkFiles(); err != nil {
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

// flagFile is a file that a flag names.
type flagFile struct{ flag, path string }

// files are the files that a keeper reads.
func (k *keepers) files() []flagFile {
	return slices.DeleteFunc([]flagFile{{"--token-file", k.dialer.TokenFile}, {"--ca", k.dialer.CAFile}},
		func(f flagFile) bool { return f.path == "" })
}

// checkFiles refuses files that can be read only once, such as pipes: a keeper is another
// process, and reads them again.
func (k *keepers) checkFiles() error {
	for _, file := range k.files() {
		if info, err := os.Stat(file.path); err == nil && !info.Mode().IsRegular() {
			return usage.Errorf("%s %s: a keeper reads that itself, and can do so only with a file", file.flag, file.path)
		}
	}
	return nil
}

// environment returns the environment of a local proxy, and the variables for the way to a
// proxy elsewhere. A command that gives tokens may need any variable of the job.
func (k *keepers) environment() []string {
	if from := k.dialer.TokenFrom; from != "" && !tokenfrom.IsGitHub(from) {
		ours := func(v string) bool {
			return strings.HasPrefix(v, "LEASECTL_") || strings.HasPrefix(v, "LEASE_PROXY_SERVER_URL=")
		}
		return append(slices.DeleteFunc(os.Environ(), ours), "LEASECTL_STATE_DIR="+k.stateDir)
	}
	names := append([]string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", tokenfrom.GitHubURL, tokenfrom.GitHubToken}, failpoint.Variables...)
	return append(local.Environment(names...), "LEASECTL_STATE_DIR="+k.stateDir)
}

// keeperState is the state of a request's keeper.
type keeperState int

const (
	keeperNone   keeperState = iota // there is none, or it has done its work
	keeperAlive                     // it runs, and now looks at its handle
	keeperKilled                    // it ended without removing its socket
)

// state looks for the keeper of a request. It connects to the keeper, which makes a live keeper
// look at its handle again.
func (k *keepers) state(request string) keeperState {
	if request == "" {
		return keeperNone
	}
	path := k.socket(request)
	if _, err := os.Lstat(path); err != nil {
		return keeperNone
	}
	if alive, err := socket.Accepts(path); alive || err != nil {
		return keeperAlive
	}
	if _, err := os.Lstat(path); err != nil {
		return keeperNone // it has just ended
	}
	return keeperKilled
}

// wake has the keeper of a request look at its handle again, and tells whether there is a
// keeper.
func (k *keepers) wake(request string) bool { return k.state(request) == keeperAlive }

// dismiss ends the keeper of a request whose lease was given back: its socket is removed before the
// connection that wakes it ends.
func (k *keepers) dismiss(request string) {
	if request == "" {
		return
	}
	path := k.socket(request)
	if _, err := os.Lstat(path); err != nil {
		return
	}
	socket.While(path, func() { os.Remove(path) })
}

// dismissed tells whether the keeper of a request, which this process is, was dismissed. A socket
// that is gone with its directory was not removed by [keepers.dismiss].
func (k *keepers) dismissed(request string) bool {
	_, err := os.Lstat(k.socket(request))
	_, gone := os.Lstat(k.dir())
	return errors.Is(err, fs.ErrNotExist) && gone == nil
}

// touch makes the socket of a keeper that has renewed its lease as old as this renewal.
func (k *keepers) touch(request string) {
	now := time.Now()
	os.Chtimes(k.socket(request), now, now) // without it, sweep only removes the socket sooner
}

// sweep removes the sockets of killed keepers that last renewed, or were started, before old,
// and returns their paths.
func (k *keepers) sweep(old time.Time) (removed []string) {
	sockets, _ := os.ReadDir(k.dir())
	for _, s := range sockets {
		info, err := s.Info()
		if err != nil || info.ModTime().After(old) || k.state(s.Name()) != keeperKilled {
			continue
		}
		if path := k.socket(s.Name()); os.Remove(path) == nil {
			removed = append(removed, path)
		}
	}
	return removed
}
