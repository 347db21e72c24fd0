package holder

import (
	"context"
	"sync"

	"github.com/leasectl/leasectl/internal/holder/dial"
	"github.com/leasectl/leasectl/internal/holder/keeper"
	"github.com/leasectl/leasectl/internal/holder/usage"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Handle, Record and List are types of package lockfile.
type (
	Handle = lockfile.Handle
	Record = lockfile.Record
	Terms  = lockfile.Terms
	List   = lockfile.List
)

// States of a handle.
const (
	HandleHeld      = lockfile.HandleHeld
	HandleReleasing = lockfile.HandleReleasing
)

// ErrNewer is [lockfile.ErrNewer]: a newer program wrote the handle.
var ErrNewer = lockfile.ErrNewer

// Options say where a [Holder] keeps its files, for which owner it asks, and which proxy.
type Options struct {
	// StateDir is the absolute path of the directory for the journal, for handles whose path
	// nobody chose, and for the local proxy. If others can write there, a directory of ours
	// inside it is used: see [lockfile.PrivateDir].
	StateDir string
	// SharedDir is the directory of the list that handles from elsewhere may name; "" is none. See [ListIn].
	SharedDir string
	Within    string        // request of the exec within whose command this process runs; "" is none
	Owner     string        // the owner that the user typed; "" is none
	JobOwner  func() string // returns the owner if the user typed none; called when needed
	Proxy     dial.Options
	Report    Reporter
}

// Holder takes leases into handles and gives them back. It is safe for concurrent use;
// operations on the same handle wait for each other at the handle's lock.
type Holder struct {
	owner   func() string
	list    List // in Options.SharedDir; "" is none
	endings endings
	lost    sync.Map // leases that [Lease.Keep] has said are lost, as lockfile.Lease
	// These are as [New] made them. The packages above holder use them, too.
	StateDir string
	Reporter Reporter
	Dialer   *dial.Dialer
	Journal  *lockfile.Entries
	Keepers  *keeper.Keepers
}

// New returns a Holder. It reads the key of the state directory at most, and opens no connection. [Holder.Close] ends those that calls open, if
// the process goes on without it.
func New(o Options) *Holder {
	owner := o.JobOwner
	if o.Owner != "" {
		owner = func() string { return o.Owner }
	}
	stateDir := lockfile.PrivateDir(o.StateDir)
	var list List
	if o.SharedDir != "" {
		list, _ = ListIn(o.SharedDir) // no error: the current directory is known, or there is no list
	}
	d := dial.New(o.Proxy, stateDir, o.Report)
	return &Holder{
		owner:    owner,
		list:     list,
		StateDir: stateDir,
		Reporter: o.Report,
		Dialer:   d,
		Journal:  &lockfile.Entries{StateDir: stateDir, Within: o.Within},
		Keepers:  &keeper.Keepers{StateDir: stateDir, Dialer: d, Owner: o.Owner, Debugf: o.Report.Debugf},
	}
}

// EndTokens ends what gets a token just now, such as a command that hangs.
func (h *Holder) EndTokens() { h.Dialer.EndTokens() }

// Close ends the connections to proxies.
func (h *Holder) Close() { h.Dialer.Close() }

// Dial returns the client of a proxy; [Holder.Close] closes the client. It may block: 20 s at
// most to start a local proxy if none runs, and 30 s at most for a token or certificate that
// comes from a pipe. The error is [usage.Err] if proxy cannot be an address.
func (h *Holder) Dial(ctx context.Context, proxy string) (*proxyclient.Client, error) {
	p, err := h.Dialer.Dial(ctx, proxy)
	if err != nil {
		return nil, err
	}
	return p.Client, nil
}

// Running returns a client of a proxy without starting a local one: if none runs, calls of the
// client fail. The caller closes the client.
func (h *Holder) Running(ctx context.Context, proxy string) (*proxyclient.Client, error) {
	return h.Dialer.Running(ctx, proxy)
}

// ProxyOf returns the proxy to ask about what a handle holds or waits for: the recorded one, unless
// the user named another just now; "" if neither is known. It is an error if only the handle names the
// proxy, and the handle may be a stranger's.
func (h *Holder) ProxyOf(r lockfile.Record) (string, error) { return h.Dialer.ProxyOf(r) }

// Owner returns the owner of this run.
func (h *Holder) Owner() string { return h.owner() }

// ownerOf returns the owner that a lease's record or request names, else the owner of this run.
func (h *Holder) ownerOf(named string) string {
	if named != "" {
		return named
	}
	return h.owner()
}

// OpenHandle returns the handle at path. The error is [usage.Err] if no handle can be there.
func OpenHandle(path string) (lockfile.Handle, error) {
	handle, err := lockfile.OpenHandle(path)
	if err != nil {
		return handle, usage.Errorf("--handle %q: %w", leaseapi.Shorten(path), err)
	}
	return handle, nil
}

// NewHandle returns the handle at path. If path is "", it returns a handle with a new name in
// the state directory. It creates no file.
func (h *Holder) NewHandle(path string) (lockfile.Handle, error) {
	if path != "" {
		return OpenHandle(path)
	}
	return lockfile.NewHandle(h.StateDir)
}

// Handles returns the paths of the handles in the state directory that can be read. It takes no
// lock, and writes nothing.
func (h *Holder) Handles() (paths []string) {
	handles, _ := lockfile.Handles(h.StateDir)
	for _, handle := range handles {
		if _, err := handle.Read(); err == nil {
			paths = append(paths, handle.Path())
		}
	}
	return paths
}
