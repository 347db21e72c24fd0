package holder

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// The way of a release, and what each step adds:
//
//	Lease.Release   a shared lease's own way, and that this process gives a lease back once
//	releaseOwn      a lease whose handle is gone, or that another process gave back
//	releaseHandle   the time, the handle's lock, and the end of the journal entry
//	releasing.all   a bare handle, and what is on disk before and after
//	sendRelease     the request, what the user is told, and the list of names
//
// Holder.Release begins at releaseHandle. An acquire into a handle that holds something, and what settles
// a dead process, begin at releasing.all.

// Release gives back what a handle holds or waits for, whichever process put it there, and returns
// the names that were released. With a delay it waits first, and does nothing if the handle then
// has another grant than r, the handle's record as read before. A handle that is gone is a success.
// After a failure the handle stays and says that its release has begun.
//
// A release that is due takes at most [cleanup.Timeout], and at most 3 s once ctx has ended.
func (h *Holder) Release(ctx context.Context, handle lockfile.Handle, r lockfile.Record, d Delay) (released []string, err error) {
	same := Anything
	if d.Time > 0 {
		same = func(now lockfile.Record) bool { return now.SameGrant(r) }
		what := "the request of handle " + handle.Path() // which has no name yet
		if names := r.NamesInFile(); len(names) > 0 {
			what = strings.Join(names, ", ")
		}
		h.Reporter.Notef("releasing %s in %s", what, leaseapi.Duration(d.Time))
		err = d.wait(ctx, h.Reporter, func(ctx context.Context) error { return handle.Watch(ctx, same) })
		if errors.Is(err, ErrReplaced) {
			h.Reporter.Notef("handle %s was released or acquired again meanwhile: nothing to do", handle.Path())
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	g := releasing{h: h, to: h.Dialer.DialRecorded, learned: handle.Modified(), asked: true}
	_, err = g.handle(ctx, cleanup.Timeout, handle, same)
	released = g.released
	for _, name := range released {
		h.Reporter.Debugf("released %s", name)
	}
	return released, err
}

// Anything allows whatever a handle has to be replaced or given back. See [Request].
func Anything(lockfile.Record) bool { return true }

// releaseHandle releases what a handle holds or waits for, and removes the handle, if same allows that
// for the handle's record. found tells whether it did: if the handle is gone, there is nothing to
// do, which is no error. It has the time of a release context of ctx, and waits for the lock of the handle for most.
func (h *Holder) releaseHandle(ctx context.Context, most time.Duration, handle lockfile.Handle, same func(lockfile.Record) bool) (released []string, found bool, err error) {
	g := releasing{h: h, to: h.Dialer.DialRecorded, learned: handle.Modified()}
	found, err = g.handle(ctx, most, handle, same)
	return g.released, found, err
}

// handle is [Holder.releaseHandle].
func (g *releasing) handle(ctx context.Context, most time.Duration, handle lockfile.Handle, same func(lockfile.Record) bool) (found bool, err error) {
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	err = updateHandle(ctx, most, handle, func(tx *lockfile.Tx) error {
		if found = tx.State != "" && same(tx.Record); !found {
			return nil
		}
		return g.all(ctx, tx)
	})
	g.settle(err)
	return found, err
}

// releasing gives back what a handle has, under the handle's lock.
type releasing struct {
	h *Holder
	// to returns the proxy to which the release of a record is sent.
	to      func(context.Context, lockfile.Record) (*v1.Proxy, error)
	learned time.Time // when the names of a bare handle were learned
	// journaled: recover finds the handle if this process is killed.
	journaled bool
	replacing bool // another request waits for the handle
	asked     bool // a user asked for it: if the proxy refuses it to the user, the handle stays as it was

	released []string
	over     []string // requests with nothing left to give back
	// unknowable: the proxy could not say whether it held a lease for the request that waited.
	unknowable bool
	// unsure: a request was withdrawn that another caller may have made, to whom it may still be granted.
	unsure bool
	entry  string // id of the journal entry of this release; "" is none
}

// all gives back all that tx's handle has, and leaves it the zero Record. After a failure the
// record says that its release has begun; a bare handle stays as it is.
func (g *releasing) all(ctx context.Context, tx *lockfile.Tx) error {
	r := tx.Record
	if r.Bare() {
		released, err := g.h.releaseNamed(ctx, Named{grants: r.Grants(), learned: g.learned, handle: tx.Path()}, 0)
		if g.released = released; err != nil {
			return advise(err, "handle %s is left as it is: release it again", tx.Path())
		}
		tx.Record = lockfile.Record{}
		return nil
	}
	if _, err := g.h.Dialer.ProxyOf(r); err != nil {
		return err
	}
	if err := g.begin(ctx, tx); err != nil {
		return err
	}
	failpoint.Here("release-unsent")
	p, err := g.to(ctx, r)
	if err == nil {
		g.released, err = g.h.sendRelease(ctx, p, tx.Path(), r)
	}
	failpoint.Here("release-answered")
	switch {
	case len(r.Leases) == 0 && errors.Is(err, errors.ErrUnsupported):
		// A version-1 proxy knows no request ids. The process that waits there notices by itself
		// that its handle was released. If it was killed, its journal entry must stay.
		g.unknowable = true
	case err != nil:
		if g.asked && len(g.released) == 0 && g.h.refused(ctx, p, r, err) {
			return g.leave(tx, r, err)
		}
		return g.failed(tx, r, err)
	default:
		if len(r.Leases) == 0 && len(g.released) == 0 {
			hides, err := g.h.mayHide(ctx, p, r)
			g.unsure = hides || err != nil
		}
		if !g.unsure {
			g.over = append(g.over, r.RequestID)
		}
	}
	tx.Record = lockfile.Record{}
	return nil
}

// begin writes down that what tx's handle holds or waits for is about to be released: into the
// journal, so that recover finds the handle wherever it is, and into the record, unless a journal entry
// of this process makes recover release it in any case. A failure of the journal is only reported.
//
// If the record cannot be written, as on a full disk, a lease with a generation is released all the
// same, and so is a request that waits: a process that finds the old record releases it again, which
// does nothing.
func (g *releasing) begin(ctx context.Context, tx *lockfile.Tx) error {
	r := tx.Record
	if !g.journaled && !g.h.Journal.Covers(r.RequestID) {
		g.entry = rand.Text()
		if err := g.h.Journal.Begin(ctx, g.h.Dialer.Own(r).Intent(g.entry, lockfile.KindRelease, tx.Path())); err != nil {
			g.h.Reporter.Debugf("%v", err)
			g.entry = ""
		}
	}
	failpoint.Here("release-in-journal")
	if r.State == lockfile.HandleReleasing ||
		lockfile.Certain(r.Leases) && len(r.Replaces) == 0 && tx.RequestOnDisk() == r.RequestID && g.h.Journal.ReleasedByRecover(r.RequestID) {
		return nil
	}
	tx.State, tx.Within = lockfile.HandleReleasing, g.h.Journal.Within
	if err := tx.Save(); err != nil && len(r.Leases) > 0 && !lockfile.Certain(r.Leases) {
		return err
	} else if err != nil {
		g.h.Reporter.Debugf("%v: releasing all the same", err)
	}
	return nil
}

// refused tells whether err came of a release of another caller's leases. A token that has ended is no other caller's.
func (h *Holder) refused(ctx context.Context, p *v1.Proxy, r lockfile.Record, err error) bool {
	if _, hidden := errors.AsType[*NotShownError](err); hidden {
		return true
	}
	if !errors.Is(err, proxyclient.ErrRefused) {
		return false
	}
	caller, err := p.Caller(ctx)
	return err == nil && r.Taker != (leaseapi.Caller{}) && caller != r.Taker
}

// leave leaves tx's handle as it was, with r, since the proxy refused its release: it has not begun, and who took the lease
// still has it.
func (g *releasing) leave(tx *lockfile.Tx, r lockfile.Record, err error) error {
	tx.Record = r
	err = errors.Join(fmt.Errorf("release %s: %w", r.Describe(), err), tx.Save())
	g.h.Journal.Settle(g.entry)
	g.entry = ""
	return advise(err, "handle %s is left as it is", tx.Path())
}

// failed writes into tx's handle that the release of r, which came to err, has begun, and adds to err
// what to do next.
func (g *releasing) failed(tx *lockfile.Tx, r lockfile.Record, err error) error {
	tx.State, tx.Within = lockfile.HandleReleasing, g.h.Journal.Within
	err = errors.Join(fmt.Errorf("release %s: %w", r.Describe(), err), tx.Save())
	if _, unconfirmed := errors.AsType[*v1.UnconfirmedError](err); unconfirmed {
		return err // it says what to do
	}
	if g.replacing && proxyclient.Outage(err) != nil {
		return AdviseForget(cmp.Or(g.entry, r.RequestID), err) // or the entry of this process's own request
	}
	return advise(err, "handle %s keeps what is owed: release it again, or run leasectl recover", tx.Path())
}

// settle ends a releasing that came to err, after the handle was written.
func (g *releasing) settle(err error) {
	if err != nil {
		g.h.Journal.Leave(g.entry)
		return
	}
	failpoint.Here("handle-removed")
	for _, request := range g.over {
		g.h.over(request)
	}
	g.h.Journal.Settle(g.entry)
}

// over removes the traces of a request whose leases were given back: its journal entry, whichever
// process has it but an exec that has lost its lease by that, and its keeper.
func (h *Holder) over(request string) {
	h.Journal.Over(request)
	h.Keepers.Dismiss(request)
}

// sendRelease gives back what a record holds, is releasing or waits for, and takes the names off their
// list. handle is the path of the record's handle; "" is none. It returns the names that this call
// released, also with an error. It tells the user which were not released, and why. The error is
// [errors.ErrUnsupported] if it is not known which leases the record's request got at a version-1
// proxy, even if some of them were released.
func (h *Holder) sendRelease(ctx context.Context, p *v1.Proxy, handle string, r lockfile.Record) (released []string, err error) {
	var reply leaseapi.ReleaseReply
	waits := len(r.Leases) == 0
	if r.Adapter != "" || !waits && !lockfile.Certain(r.Leases) {
		reply, err = p.ReleaseHeld(ctx, h.heldAt(handle, r))
	} else {
		reply, err = p.Client.Release(ctx, h.releaseRequest(r))
		if err == nil {
			reply, err = h.ofStore(p, r, reply)
		}
		if err == nil {
			err = h.checkShown(ctx, p, r, &reply)
		}
		if waits {
			reply.Stale = nil // what the request replaces has ended, and may have another holder
		}
		if waits && errors.Is(err, errors.ErrUnsupported) {
			reply, err = h.sendUnwritten(ctx, p, handle, r, err)
		}
	}
	released = h.saySettled(reply)
	done := slices.Concat(r.Leases, r.Replaces)
	if err != nil {
		done = slices.DeleteFunc(slices.Clone(done), func(l lockfile.Lease) bool { return !slices.Contains(reply.Released, l.Name) })
	}
	h.unlist(ctx, r, done)
	return released, err
}

// otherStore says of a single server that it holds nothing of what a lease's record says.
const otherStore = "the proxy has another store than the one that granted it"

func (h *Holder) sayFresh(what string) {
	h.Reporter.Notef("%s counts as released: %s", what, otherStore)
}

// ofStore returns what a reply to the release of a record settles, judged by the store that answered.
func (h *Holder) ofStore(p *v1.Proxy, r lockfile.Record, reply leaseapi.ReleaseReply) (leaseapi.ReleaseReply, error) {
	fresh, err := h.Dialer.Settles(p, r.Store, r.Proxy)
	if err != nil {
		return leaseapi.ReleaseReply{}, err
	}
	if fresh {
		h.sayFresh(r.Describe())
		return leaseapi.ReleaseReply{}, nil
	}
	return reply, nil
}

// releaseRequest returns the request that gives back what a record holds by generations, or waits for by
// its request's id. The release of a lease also says what this process noted about its command.
func (h *Holder) releaseRequest(r lockfile.Record) leaseapi.ReleaseRequest {
	req := leaseapi.ReleaseRequest{Leases: r.Wire()}
	if len(r.Leases) == 0 {
		req.RequestIDs = []string{r.RequestID}
		return req
	}
	ending := h.endings.of(r.RequestID)
	req.Peak, req.ExitCode, req.Report = ending.peak, ending.exitCode, ending.outcome.reportRequest(r.RequestID)
	return req
}

// heldAt is what a version-1 proxy's adapter is told of a record whose handle is at a path.
func (h *Holder) heldAt(handle string, r lockfile.Record) v1.Record {
	owner := h.owner() // a stranger's record must not say whose lease it is
	if h.Journal.Covers(r.RequestID) || h.Dialer.Sealed(r) {
		owner = h.ownerOf(r.Owner)
	}
	return v1.Record{Proxy: r.Proxy, Adapter: r.Adapter, Owner: owner, Handle: handle, Leases: r.Leases, AcquiredAt: r.AcquiredAt}
}

// sendUnwritten sends the release of leases that r's request got at a version-1 proxy, and that are not
// in its handle yet. unknown is the error if not all of them are known.
func (h *Holder) sendUnwritten(ctx context.Context, p *v1.Proxy, handle string, r lockfile.Record, unknown error) (leaseapi.ReleaseReply, error) {
	held, err := h.Dialer.Adapter.OfRequest(r.RequestID)
	if err != nil || len(held) == 0 {
		return leaseapi.ReleaseReply{}, cmp.Or(err, unknown)
	}
	r.Adapter = h.Dialer.Adapter.ID()
	for _, l := range held {
		r.Leases = append(r.Leases, lockfile.Lease{Name: l.Name, Generation: l.Generation})
	}
	reply, err := p.ReleaseHeld(ctx, h.heldAt(handle, r))
	if err == nil && len(held) < r.Count {
		err = unknown // the others may have been granted, too
	}
	return reply, err
}

// saySettled tells the user what a release did not do, and returns the names that it did release.
func (h *Holder) saySettled(reply leaseapi.ReleaseReply) (released []string) {
	for _, lost := range reply.Stale {
		if _, said := h.lost.Load(lockfile.Lease{Name: lost.Name, Generation: lost.Generation}); said {
			continue
		}
		why := leaseapi.Printable(lost.Reason)
		if why == leaseapi.ReasonReserved {
			why = "another has reserved it: leasectl status says who, and why"
		}
		h.Reporter.Notef("%s is not released: %s", lost.Name, why)
	}
	released = slices.Clone(reply.Released)
	for _, lost := range reply.Over {
		if lost.Reason == proxyclient.UnknownName {
			h.Reporter.Notef("%s counts as released: %s: somebody else released it, or the proxy was restarted and forgot it; leasectl recover lists what may still be held", lost.Name, lost.Reason)
			continue
		}
		if lost.Generation == 0 { // only the name was given
			h.Reporter.Notef("%s is held by nobody: nothing to release", lost.Name)
		} else {
			h.Reporter.Debugf("%s was over already: %s", lost.Name, lost.Reason)
		}
		released = slices.DeleteFunc(released, func(name string) bool { return name == lost.Name })
	}
	return released
}

// ListOf returns the list that a record names, if the record is ours, or the list is that of the environment: a
// stranger's must not change any other file. "" is none.
func (h *Holder) ListOf(r lockfile.Record) List {
	if list := List(r.SharedList); list == h.list || list != "" && h.Dialer.Sealed(r) {
		return list
	}
	return ""
}

// unlist removes leases of a record from their list. They are given back already, so a failure is only
// reported.
func (h *Holder) unlist(ctx context.Context, r lockfile.Record, leases []lockfile.Lease) {
	if r.SharedList == "" || len(leases) == 0 {
		return
	}
	if h.ListOf(r) == "" {
		h.Reporter.Notef("the list %s stays as it is: a handle names it that was not made with this state directory, and it is not in $SHARED_DIR", r.SharedList)
		return
	}
	r.Leases = leases
	if err := lockfile.List(r.SharedList).Remove(ctx, r.Grants()); err != nil {
		h.Reporter.Failf("%v", err)
	}
}

// ownLockTime is how long a process waits for the lock of a handle that it does not need, since it knows
// the lease: a command may have left a process that holds the lock.
const ownLockTime = time.Second

// releaseOwn is releaseHandle of the handle into which this process wrote r. If the handle is gone
// or cannot be read, it releases the lease of r without the handle: a command may have removed
// or replaced it. It does nothing if another process has given the lease back.
func (h *Holder) releaseOwn(ctx context.Context, handle lockfile.Handle, same func(lockfile.Record) bool, r lockfile.Record) (released []string, err error) {
	if !h.Journal.Stands(r.RequestID) {
		h.Journal.Settle(r.RequestID)
		return nil, nil
	}
	most := cleanup.Timeout
	if lockfile.Certain(r.Leases) {
		most = ownLockTime
	}
	released, found, err := h.releaseHandle(ctx, most, handle, same)
	if isUnread(err) && lockfile.Certain(r.Leases) {
		h.Reporter.Debugf("%v: releasing all the same", err)
		if released, err = h.sendOwn(ctx, r); err == nil && r.Lasts() {
			h.over(r.RequestID) // a further release could say nothing of it
		} else {
			h.Journal.Leave(r.RequestID) // recover removes the handle once it can be read
		}
		return released, err
	}
	if err != nil || found {
		return released, err
	}
	return h.releaseWithoutHandle(ctx, r)
}

// ReleaseAtPath gives back the lease of a record whose handle is at path, if same allows that for the record that
// the handle has now. It does so even if the handle is gone or cannot be read, but not if another process has
// given the lease back. If r has no lease yet, it gives back what the handle has.
func (h *Holder) ReleaseAtPath(ctx context.Context, path string, same func(lockfile.Record) bool, r lockfile.Record) (released []string, err error) {
	handle, err := OpenHandle(path)
	if err == nil {
		return h.releaseOwn(ctx, handle, same, r)
	}
	if !lockfile.Certain(r.Leases) {
		return nil, err
	}
	return h.releaseWithoutHandle(ctx, r) // something else is at its path
}

// releaseWithoutHandle gives back the lease of a record of this process, whose handle was
// removed or replaced.
func (h *Holder) releaseWithoutHandle(ctx context.Context, r lockfile.Record) (released []string, err error) {
	if !lockfile.Certain(r.Leases) {
		return nil, nil // the name may be somebody else's lease now
	}
	if !h.Journal.Stands(r.RequestID) {
		h.Journal.Settle(r.RequestID)
		return nil, nil
	}
	released, err = h.sendOwn(ctx, r)
	if err == nil {
		h.over(r.RequestID)
	}
	return released, err
}

// sendOwn is sendRelease for a record of this process, in the time of a release.
func (h *Holder) sendOwn(ctx context.Context, r lockfile.Record) (released []string, err error) {
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	p, err := h.Dialer.DialRecorded(ctx, r)
	if err == nil {
		released, err = h.sendRelease(ctx, p, "", r)
	}
	if err != nil {
		return released, fmt.Errorf("release %s: %w", r.Describe(), err)
	}
	return released, nil
}

// removeReleased removes the handle of leases of a version-1 proxy that were given back by their
// names, once it has no others: scripts need not release it as well. That of a running exec stays,
// for which the lease is lost. A handle that cannot be removed does no harm. locked is the path of the
// handle whose lock the caller holds.
func (h *Holder) removeReleased(ctx context.Context, released v1.Held, locked string) {
	if left, _ := h.Dialer.Adapter.OfRequest(released.Request); len(left) > 0 || h.Journal.HasExec(released.Request) {
		return
	}
	if handle, err := lockfile.OpenHandle(released.Handle); err == nil && handle.Path() != locked {
		ctx, cancel := cleanup.ForNotes(ctx)
		defer cancel()
		err := handle.Update(ctx, func(tx *lockfile.Tx) error {
			if tx.RequestID == released.Request && tx.State == lockfile.HandleHeld {
				h.unlist(ctx, tx.Record, tx.Leases)
				tx.Record = lockfile.Record{}
			}
			return nil
		})
		if err != nil {
			h.Reporter.Debugf("%v", err)
		}
	}
	h.over(released.Request)
}
