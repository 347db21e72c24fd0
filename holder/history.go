package holder

import (
	"context"
	"path/filepath"
	"time"

	"github.com/leasectl/leasectl/lockfile"
)

// history is what this machine remembers of the grants that its processes got.
type history struct {
	stateDir string
	report   Reporter
}

func (h *history) file() lockfile.History {
	return lockfile.History(filepath.Join(h.stateDir, "history"))
}

// of returns the newest grant of a name at a store, if this machine got one.
func (h *history) of(name, store string) (g lockfile.Grant, known bool) {
	return grantAt(store, h.all(name))
}

// grantAt returns the grant at a store from newest, the newest grants of a name at each store.
func grantAt(store string, newest []lockfile.Grant) (g lockfile.Grant, known bool) {
	for _, g := range newest {
		if g.Store == store {
			return g, true
		}
	}
	return lockfile.Grant{}, false
}

// all returns the newest grant of a name at each store. A history that cannot be read
// counts as empty: then a release goes by owner or by name.
func (h *history) all(name string) []lockfile.Grant {
	grants, err := h.file().Of(name)
	if err != nil {
		h.report.Debugf("%v", err)
	}
	return grants
}

// add remembers the leases that a handle's record got.
func (h *history) add(ctx context.Context, handle lockfile.Handle, r lockfile.Record) error {
	if err := makeStateDir(h.stateDir); err != nil {
		return err
	}
	grants := grantsOf(r.Leases, r.Store, r.RequestID)
	for i := range grants {
		grants[i].Owner, grants[i].Handle, grants[i].SharedList = r.Owner, handle.Path(), r.SharedList
		grants[i].At = lockfile.FileTime()
	}
	return h.file().Add(ctx, grants)
}

// historyTime bounds a note that leases were given back. It does not count against the time of
// the caller, which may be over.
const historyTime = time.Second

// noteGivenBack notes that leases of a request were given back.
func (h *history) noteGivenBack(ctx context.Context, leases []lockfile.Lease, store, request string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), historyTime)
	defer cancel()
	if err := h.file().NoteGivenBack(ctx, grantsOf(leases, store, request)); err != nil {
		h.report.Debugf("%v", err)
	}
}

// allOver tells whether all leases of a request are known to be over: given back,
// or granted to somebody else since.
func (h *history) allOver(o lockfile.Owed, store string) bool {
	for _, l := range o.Leases {
		if !h.over(l, o, store) {
			return false
		}
	}
	return len(o.Leases) > 0
}

// over tells whether the lease l of o is known to be over: it was given back, or its name was
// granted again. The name was granted again if its newest grant is another one, and younger.
func (h *history) over(l lockfile.Lease, o lockfile.Owed, store string) bool {
	newest, known := h.of(l.Name, store)
	switch {
	case !known:
		return false
	case newest.Is(lockfile.Grant{Lease: l, Store: store, RequestID: o.RequestID}):
		return !newest.GivenBack.IsZero()
	case o.NotAfter.IsZero():
		return newest.GivenBack.IsZero() // a holder of this machine has it
	}
	return newest.At.After(o.NotAfter)
}

// grantsOf returns leases as the grants of a request at a store.
func grantsOf(leases []lockfile.Lease, store, request string) []lockfile.Grant {
	grants := make([]lockfile.Grant, len(leases))
	for i, l := range leases {
		grants[i] = lockfile.Grant{Lease: l, Store: store, RequestID: request}
	}
	return grants
}
