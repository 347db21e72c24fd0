package holder

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/leasectl/leasectl/lockfile"
)

// journal holds the entries of this process. A command writes an entry before it asks the proxy
// for something, and removes the entry when that is done or known not to have happened. The
// next run, or recover, settles the entry of a dead process.
//
// The entries stand here, and not with their leases, because an entry may outlive the function
// that made it.
type journal struct {
	stateDir string

	mu      sync.Mutex
	entries map[string]*lockfile.Entry // by id
}

func (j *journal) file() lockfile.Journal {
	return lockfile.Journal(filepath.Join(j.stateDir, "intents"))
}

// begin writes an intent down and holds it.
func (j *journal) begin(ctx context.Context, in lockfile.Intent) error {
	in.PID, in.Begun = os.Getpid(), time.Now().UTC().Round(time.Millisecond)
	if err := makeStateDir(j.stateDir); err != nil {
		return err
	}
	entry, err := j.file().Begin(ctx, in)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.entries == nil {
		j.entries = make(map[string]*lockfile.Entry)
	}
	j.entries[in.ID] = entry
	return nil
}

// settle removes an entry: nothing is left to do. It ignores ids without an entry of this
// process. An entry that cannot be removed does no harm: recover finds nothing to do.
func (j *journal) settle(id string) {
	if e := j.remove(id); e != nil {
		e.Settle()
	}
}

// leave gives an entry up for others to settle.
func (j *journal) leave(id string) {
	if e := j.remove(id); e != nil {
		e.Leave()
	}
}

func (j *journal) remove(id string) *lockfile.Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entries[id]
	delete(j.entries, id)
	return e
}

// done removes the entry of a request whose leases were given back, whichever process has made it:
// that process learns by the missing entry that nothing is left to give back.
func (j *journal) done(request string) {
	j.settle(request)
	if request != "" {
		j.file().Remove(request) // one that stays does no harm: recover finds nothing to do
	}
}

// stands tells whether nobody has given back the leases of a request of this process, as far as
// the journal says.
func (j *journal) stands(request string) bool {
	j.mu.Lock()
	e := j.entries[request]
	j.mu.Unlock()
	return e == nil || e.Stands()
}

// covers tells whether this process has an open entry for a request.
func (j *journal) covers(request string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.entries[request] != nil
}

// releasedByRecover tells whether an open entry of this process makes recover release the
// lease of a request once the process is dead: the lease is for the life of the process,
// or is being released.
func (j *journal) releasedByRecover(request string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.entries {
		if kind := e.Kind(); e.Request() == request && (kind == lockfile.KindExec || kind == lockfile.KindRelease) {
			return true
		}
	}
	return false
}

// hasExec tells whether an exec on this machine made a request, and still runs or was killed.
func (j *journal) hasExec(request string) bool {
	return j.file().Contains(func(in lockfile.Intent) bool {
		return in.Kind == lockfile.KindExec && in.Request == request
	})
}

// hasRelease tells whether a process of this machine is giving back the lease that a handle
// got by a request, or was killed while it did.
func (j *journal) hasRelease(handle lockfile.Handle, request string) bool {
	return j.file().Contains(func(in lockfile.Intent) bool {
		return in.Kind == lockfile.KindRelease && in.Handle == handle.Path() && in.Request == request
	})
}
