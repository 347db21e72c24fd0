package lockfile

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Entries are the journal entries of this process. A command writes an entry before it asks the proxy
// for something, and removes the entry when that is done or known not to have happened. The
// next run, or recover, settles the entry of a dead process.
//
// The entries stand here, and not with their leases, because an entry may outlive the function
// that made it.
type Entries struct {
	StateDir string // path of the state directory
	Within   string // request of the exec within whose command this process runs; "" if there is none

	mu      sync.Mutex
	entries map[string]*Entry // by id
	ended   map[string]bool   // requests that this process knows to be over
}

// Journal returns the journal of all processes.
func (es *Entries) Journal() Journal {
	return Journal(filepath.Join(es.StateDir, "intents"))
}

// Begin writes an intent down and holds it.
func (es *Entries) Begin(ctx context.Context, in Intent) error {
	in.PID, in.Begun, in.Within = os.Getpid(), now(), es.Within
	if err := MakeStateDir(es.StateDir); err != nil {
		return err
	}
	entry, err := es.Journal().Begin(ctx, in)
	if err != nil {
		return err
	}
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.entries == nil {
		es.entries = make(map[string]*Entry)
	}
	es.entries[in.ID] = entry
	return nil
}

// Granted notes in the entry of a record's request, which is one of this process, who took its leases, for how long they last
// after their last renewal, and which store has them. A failure does no harm but that others may withdraw them.
func (es *Entries) Granted(r Record) {
	es.mu.Lock()
	defer es.mu.Unlock()
	if e := es.entries[r.RequestID]; e != nil {
		e.intent.Taker, e.intent.TTL, e.intent.Store = r.Taker, r.TTL, r.Store
		e.intent.write(e.path)
	}
}

// Outlived tells whether an entry of a dead process says that the leases of a request, which last for ttl, have ended by
// themselves by now.
func (es *Entries) Outlived(request string, ttl time.Duration) bool {
	return es.Journal().Contains(func(in Intent) bool { return in.Request == request && in.Outlived(time.Now(), ttl) })
}

// Settle removes an entry: nothing is left to do. It ignores ids without an entry of this
// process. An entry that cannot be removed does no harm: recover finds nothing to do.
func (es *Entries) Settle(id string) {
	if entry := es.remove(id); entry != nil {
		entry.Settle()
	}
}

// Leave gives an entry up for others to settle.
func (es *Entries) Leave(id string) {
	if entry := es.remove(id); entry != nil {
		entry.Leave()
	}
}

func (es *Entries) remove(id string) *Entry {
	es.mu.Lock()
	defer es.mu.Unlock()
	e := es.entries[id]
	delete(es.entries, id)
	return e
}

// Over removes the entry of a request whose leases were given back, whichever process has made it:
// that process learns by the missing entry that nothing is left to give back. The entry of an exec that
// runs stays unless this process runs within its command: otherwise that exec has lost its lease.
func (es *Entries) Over(request string) {
	if request == "" {
		return
	}
	es.Settle(request)
	es.mu.Lock()
	if es.ended == nil {
		es.ended = make(map[string]bool)
	}
	es.ended[request] = true
	es.mu.Unlock()
	if request == es.Within || !es.Journal().runsExec(request) {
		es.Journal().Remove(request) // one that stays does no harm: recover finds nothing to do
	}
}

// Stands tells whether neither this process nor one within its command has given back the leases of a
// request of this process, as far as the journal says.
func (es *Entries) Stands(request string) bool {
	es.mu.Lock()
	e, ended := es.entries[request], es.ended[request]
	es.mu.Unlock()
	return !ended && (e == nil || e.Stands())
}

// Covers tells whether this process has an open entry for a request.
func (es *Entries) Covers(request string) bool {
	es.mu.Lock()
	defer es.mu.Unlock()
	return es.entries[request] != nil
}

// ReleasedByRecover tells whether an open entry of this process makes recover release the
// lease of a request once the process is dead: the lease is for the life of the process,
// or is being released.
func (es *Entries) ReleasedByRecover(request string) bool {
	es.mu.Lock()
	defer es.mu.Unlock()
	for _, e := range es.entries {
		if kind := e.Kind(); e.Request() == request && (kind == KindExec || kind == KindRelease) {
			return true
		}
	}
	return false
}

// HasExec tells whether an exec on this machine made a request, and still runs or was killed.
func (es *Entries) HasExec(request string) bool {
	return es.Journal().Contains(func(in Intent) bool {
		return in.Kind == KindExec && in.Request == request
	})
}

// HasRelease tells whether a process within the command of the exec that made a request is giving back
// the lease that a handle got by it, or was killed while it did.
func (es *Entries) HasRelease(handle Handle, request string) bool {
	return es.Journal().Contains(func(in Intent) bool {
		return in.Kind == KindRelease && in.Handle == handle.Path() && in.Request == request && in.Within == request
	})
}
