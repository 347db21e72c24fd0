package holder

import (
	"context"
	"crypto/rand"
	"path/filepath"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Handle, Record and List are those of lockfile.
type (
	Handle = lockfile.Handle
	Record = lockfile.Record
	List   = lockfile.List
)

// States of a record, as lockfile has them.
const (
	StateHeld      = lockfile.StateHeld
	StateReleasing = lockfile.StateReleasing
)

// ErrNewer is that of lockfile: a newer program wrote the handle.
var ErrNewer = lockfile.ErrNewer

// Options say where a [Holder] keeps its files, as whom it asks, and whom.
type Options struct {
	// StateDir is an absolute path: journal, handles of nobody's choosing, the
	// local proxy. If others can write there, a directory of ours inside holds them.
	StateDir string
	Owner    string        // what the user typed as owner; "" if nothing
	JobOwner func() string // who holds leases if the user typed nothing; asked when needed
	Proxy    ProxyOptions
	Report   Reporter
	// Listening is closed when the program hears the signals that ask it to
	// end. Until then nothing is begun that a killed program would owe.
	Listening <-chan struct{}
}

// Holder takes leases into handles and gives them back. It is safe for
// concurrent use, but for operations on one handle that order themselves by its
// lock.
type Holder struct {
	stateDir  string
	owner     func() string
	report    Reporter
	listening <-chan struct{}
	dialer    *dialer
	journal   *journal
	history   *history
	keepers   *keepers
	endings   endings
}

// New returns a Holder. It opens nothing. Close it.
func New(o Options) *Holder {
	owner := o.JobOwner
	if o.Owner != "" {
		owner = func() string { return o.Owner }
	}
	stateDir := lockfile.PrivateDir(o.StateDir)
	d := &dialer{ProxyOptions: o.Proxy, stateDir: stateDir, report: o.Report, listening: o.Listening, pipes: pipes{report: o.Report}}
	return &Holder{
		stateDir:  stateDir,
		owner:     owner,
		report:    o.Report,
		listening: o.Listening,
		dialer:    d,
		journal:   &journal{stateDir: stateDir},
		history:   &history{stateDir: stateDir, report: o.Report},
		keepers:   &keepers{stateDir: stateDir, dialer: d, owner: o.Owner, report: o.Report},
	}
}

// Close ends the connections to proxies.
func (h *Holder) Close() { h.dialer.close() }

// Dial returns the client of a proxy, which Close closes. It may block to start a local
// proxy if none runs, 20 s at most, and for a token or certificate that is to come from
// a pipe, 30 s at most.
func (h *Holder) Dial(ctx context.Context, proxy string) (*proxyclient.Client, error) {
	return h.dialer.dial(ctx, proxy)
}

// Running returns a client of a proxy without starting a local one: if none runs, calls
// of the client fail. The caller closes the client.
func (h *Holder) Running(ctx context.Context, proxy string) (*proxyclient.Client, error) {
	return h.dialer.running(ctx, proxy)
}

// ownerOf is who holds a lease: the owner that its record or request names, else the one
// of this run.
func (h *Holder) ownerOf(named string) string {
	if named != "" {
		return named
	}
	return h.owner()
}

// OpenHandle returns the handle at path. A path that cannot be one is
// [ErrInvalid].
func OpenHandle(path string) (lockfile.Handle, error) {
	handle, err := lockfile.OpenHandle(path)
	if err != nil {
		return handle, invalidf("--handle %q: %w", leaseapi.Shorten(path), err)
	}
	return handle, nil
}

// NewHandle returns the handle at path, or if that is empty, the place of a new
// one in the state directory. It makes neither.
func (h *Holder) NewHandle(path string) (lockfile.Handle, error) {
	if path != "" {
		return OpenHandle(path)
	}
	handle, err := lockfile.OpenHandle(filepath.Join(h.stateDir, "lease-"+rand.Text()))
	if err != nil {
		return handle, stateDirError(err)
	}
	return handle, nil
}

// Handles returns the paths of the handles in the state directory that can be read.
// It takes no lock, and makes nothing.
func (h *Holder) Handles() (paths []string) {
	handles, _ := lockfile.Handles(h.stateDir)
	for _, handle := range handles {
		if _, err := handle.Read(); err == nil {
			paths = append(paths, handle.Path())
		}
	}
	return paths
}
