package holder

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/usage"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Named are names that a user gave: on a command line, in a copy of a handle or in a list. They
// mean leases of one owner that were granted before the user learned of the names, and never later
// ones. The proxy judges that.
type Named struct {
	grants  []lockfile.Grant // with all that a list says of each, or the name only
	learned time.Time        // when the names were learned
	list    lockfile.List    // that has the names; "" is none
	handle  string           // path of the bare handle that has the names, and whose lock is held; "" is none
	unread  error            // about lines of the list that are no names; nil: there are none
}

// Named returns what names mean that the user knows since now.
func (h *Holder) Named(names []string) Named {
	n := Named{learned: time.Now()}
	for _, name := range names {
		n.grants = append(n.grants, lockfile.Grant{Lease: lockfile.Lease{Name: name}})
	}
	return n
}

// ListIn returns the list of names in sharedDir, the directory that the steps of a test
// share. The error is [usage.Err] if sharedDir is "". It does not check whether the list can
// be written: [Holder.Acquire] does.
func ListIn(sharedDir string) (lockfile.List, error) {
	if sharedDir == "" {
		return "", usage.Errorf("--scope test: SHARED_DIR is not set: it is the directory whose file leases lists the names")
	}
	dir, err := filepath.Abs(sharedDir)
	if err != nil {
		return "", fmt.Errorf("--scope test: %w", err)
	}
	return lockfile.List(filepath.Join(dir, "leases")), nil
}

// listLockTime is how long a list may be locked before anything is done: a step holds its lock for milliseconds, but one
// that was stopped, or another user whose directory it is, may hold it for ever.
const listLockTime = 3 * time.Second

// checkList returns an error if names could not be added to a list later.
func checkList(ctx context.Context, list lockfile.List) error {
	ctx, cancel := context.WithTimeout(ctx, listLockTime)
	defer cancel()
	if err := list.CanAppend(ctx); err != nil {
		return fmt.Errorf("--scope test: %w", err)
	}
	return nil
}

// Listed returns what the entries of a list mean. It is an error if the list cannot be written,
// because released entries would stay. That does not matter if all entries have generations:
// releasing those again does nothing. Lines that are no names keep no others from being released, which is
// an error then.
func (h *Holder) Listed(ctx context.Context, list lockfile.List) (Named, error) {
	unwritable := checkList(ctx, list)
	grants, written, err := list.Read()
	nameOnly := func(g lockfile.Grant) bool { return g.Generation == 0 }
	switch {
	case unwritable != nil && (err != nil || len(grants) == 0 || slices.ContainsFunc(grants, nameOnly)):
		return Named{}, unwritable
	case err != nil && len(grants) == 0:
		return Named{}, err
	}
	return Named{grants: grants, learned: written, list: list, unread: err}, nil
}

// Names returns the names.
func (n Named) Names() []string {
	names := make([]string, len(n.grants))
	for i, g := range n.grants {
		names[i] = g.Name
	}
	return names
}

// ReleaseNamed gives leases back by their names, without a handle; with a delay it waits first.
// It reports to the user, but not as an error, a lease that is over, or a name that is somebody
// else's lease now. A list loses the entries of leases that were released, or are over. With an
// error it also returns the names that were released.
func (h *Holder) ReleaseNamed(ctx context.Context, n Named, d Delay) (released []string, err error) {
	if d.Time > 0 {
		h.Reporter.Notef("releasing %s in %s", strings.Join(n.Names(), ", "), leaseapi.Duration(d.Time))
		if err := d.wait(ctx, h.Reporter, nil); err != nil {
			return nil, err
		}
	}
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	return h.releaseNamed(ctx, n, 0)
}

// ReleaseNamedDetached leaves the release of names after delay to the proxy. It takes at most
// [cleanup.Timeout], and at most 3 s once ctx has ended. The error is [errors.ErrUnsupported]
// with a version-1 proxy.
func (h *Holder) ReleaseNamedDetached(ctx context.Context, n Named, delay time.Duration) error {
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	_, err := h.releaseNamed(ctx, n, delay)
	return err
}

// releaseNamed releases names, or leaves their release after delay to the proxy. Each lease with a
// generation is released by that, and the names of each request together.
func (h *Holder) releaseNamed(ctx context.Context, n Named, delay time.Duration) (released []string, err error) {
	p, err := h.Dialer.Dial(ctx, h.Dialer.URL)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, of := range n.byRequest() {
		names, err := h.releaseOf(ctx, p, n, of, delay)
		if released = append(released, names...); err != nil {
			errs = append(errs, fmt.Errorf("release %s: %w", strings.Join(namesIn(of), ", "), err))
		}
		if errors.Is(err, proxyclient.ErrUnreachable) {
			break
		}
	}
	return released, errors.Join(append(errs, n.unread)...)
}

// byRequest splits the names by the request that got them, in their order. Of most names the
// request is not known.
func (n Named) byRequest() (groups [][]lockfile.Grant) {
	for _, g := range n.grants {
		if g.RequestID == "" {
			g.Generation = 0 // it can be guessed, so it says nothing
		}
		at := slices.IndexFunc(groups, func(of []lockfile.Grant) bool {
			return of[0].RequestID == g.RequestID && of[0].Store == g.Store && (of[0].Generation == 0) == (g.Generation == 0)
		})
		if at < 0 {
			groups = append(groups, nil)
			at = len(groups) - 1
		}
		groups[at] = append(groups[at], g)
	}
	return groups
}

func namesIn(of []lockfile.Grant) []string { return Named{grants: of}.Names() }

// releaseOf is releaseNamed for the names of one request.
func (h *Holder) releaseOf(ctx context.Context, p *v1.Proxy, n Named, of []lockfile.Grant, delay time.Duration) (released []string, err error) {
	first := of[0]
	owner := h.ownerOf(first.Owner)
	fresh, err := h.isFresh(ctx, p, first)
	switch {
	case err != nil:
		return nil, err
	case fresh && delay > 0:
		return nil, fmt.Errorf("put the release off by %s: %w: %s", leaseapi.Duration(delay), proxyclient.ErrLost, otherStore)
	case fresh:
		h.sayFresh(strings.Join(namesIn(of), ", "))
	}
	var reply leaseapi.ReleaseReply
	var given []v1.Held
	began := time.Now()
	if fresh { // there is nothing to ask for
	} else if first.Generation != 0 {
		request := leaseapi.ReleaseRequest{Delay: leaseapi.Duration(delay)}
		for _, g := range of {
			request.Leases = append(request.Leases, leaseapi.Lease{Name: g.Name, Generation: g.Generation, RequestID: g.RequestID})
		}
		reply, err = p.Client.Release(ctx, request)
	} else {
		// A file does not say whose lease our server ends.
		request := proxyclient.NamesRelease{Names: namesIn(of), Owner: h.owner(), Learned: n.learned, Delay: delay}
		// The store of a version-1 proxy is its address.
		meant := v1.Meant{Proxy: first.Store, Request: first.RequestID, Owner: owner, Adapter: first.Adapter}
		reply, given, err = p.ReleaseNames(ctx, request, meant)
	}
	if err == nil && first.Generation != 0 {
		err = h.checkShown(ctx, p, lockfile.Record{RequestID: first.RequestID, Taker: first.Taker}, &reply)
	}
	for _, held := range given {
		h.removeReleased(ctx, held, n.handle)
	}
	if names := reply.Released; delay == 0 && len(names) > 0 && len(given) == 0 {
		t := tidying{h: h, proxy: p, owner: owner, store: h.Dialer.StoreOf("", p.Address), released: names, began: began}
		t.tidyHandles(ctx)
	}
	if delay > 0 {
		if err == nil {
			h.sayPutOff("the proxy", namesIn(of), slices.Concat(reply.Over, reply.Stale), delay)
		}
		return nil, err
	}
	released = h.saySettled(reply)
	if err == nil && first.RequestID != "" && !h.Journal.HasExec(first.RequestID) {
		h.over(first.RequestID)
	}
	if n.list != "" {
		gone := of
		if err != nil {
			gone = slices.DeleteFunc(slices.Clone(of), func(g lockfile.Grant) bool { return !slices.Contains(reply.Released, g.Name) })
		}
		err = errors.Join(err, n.list.Remove(ctx, gone))
	}
	return released, err
}

// isFresh tells whether a single server has another store than it had when it made a grant. It is an error if any other
// proxy has another store.
func (h *Holder) isFresh(ctx context.Context, p *v1.Proxy, g lockfile.Grant) (bool, error) {
	if _, err := h.Dialer.AskStore(ctx, p, g.Store); err != nil {
		return false, err
	}
	recorded := ""
	if g.Proxy == proxyclient.Redacted(p.Address) {
		recorded = p.Address
	}
	return h.Dialer.Settles(p, g.Store, recorded)
}

// AllReleased is what [Holder.ReleaseAll] is known to have given back.
type AllReleased struct {
	Names     []string
	Withdrawn int  // requests that waited
	Lost      bool // an earlier try, whose answer was lost, may have given back more
}

// ReleaseAll gives back all leases that owner has at the proxy, whichever machine acquired
// them, and takes the owner's requests off the queue. It also removes their traces on this
// machine: handles, keepers, entries of lists, and journal entries of killed runs. It takes at
// most [cleanup.Timeout], and at most 3 s once ctx has ended. The error is
// [errors.ErrUnsupported] with a version-1 proxy.
func (h *Holder) ReleaseAll(ctx context.Context, owner string) (AllReleased, error) {
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	began := time.Now()
	p, err := h.Dialer.Dial(ctx, h.Dialer.URL)
	if err != nil {
		return AllReleased{}, err
	}
	reply, lost, err := p.ReleaseAll(ctx, owner)
	if err != nil {
		return AllReleased{}, err
	}
	t := tidying{h: h, proxy: p, owner: owner, store: h.Dialer.StoreOf("", h.Dialer.URL), released: reply.Released, began: began}
	t.tidyIntents(ctx)
	t.tidyHandles(ctx)
	return AllReleased{Names: reply.Released, Withdrawn: reply.Withdrawn, Lost: lost}, nil
}

// tidying removes the traces in the state directory of an owner's leases that were given back without
// their handles. A trace that it cannot remove does no harm: releasing again does nothing.
type tidying struct {
	h        *Holder
	proxy    *v1.Proxy
	owner    string
	store    string
	released []string
	began    time.Time // leases that were acquired later stay

	over map[string]bool // requests that the proxy was asked about: whether they have ended
}

func (t *tidying) debug(err error) {
	if err != nil {
		t.h.Reporter.Debugf("%v", err)
	}
}

// tidyIntents settles the journal entries that killed runs of the owner left. Live runs hear of
// the release from the proxy.
func (t *tidying) tidyIntents(ctx context.Context) {
	s := settling{h: t.h, proxyOf: func(r lockfile.Record) (string, error) {
		if t.h.Dialer.StoreOf("", r.Proxy) != t.h.Dialer.StoreOf("", t.h.Dialer.URL) {
			return "", nil
		}
		return r.Proxy, nil
	}}
	t.debug(t.h.Journal.Journal().SettleDead(ctx, func(in lockfile.Intent) bool {
		if proxy, _ := s.proxyOf(lockfile.Record{Proxy: in.Proxy}); in.Owner != t.owner || proxy == "" {
			return false
		}
		done, err := s.settleIntent(ctx, in)
		t.debug(err)
		return err == nil && !done.Unconfirmed && !done.Unsure
	}))
}

// tidyHandles removes the handles of the leases.
func (t *tidying) tidyHandles(ctx context.Context) {
	handles, err := lockfile.Handles(t.h.StateDir)
	t.debug(err)
	for _, handle := range handles {
		if r, err := handle.Read(); err != nil || !t.covers(ctx, r) {
			continue // read without the lock first, since most handles are others'
		}
		var gone lockfile.Record
		err := handle.Update(ctx, func(tx *lockfile.Tx) error {
			if t.covers(ctx, tx.Record) {
				gone, tx.Record = tx.Record, lockfile.Record{}
			}
			return nil
		})
		t.debug(err)
		if err == nil && gone.State != "" {
			t.h.unlist(ctx, gone, gone.Leases)
			t.h.over(gone.RequestID)
		}
	}
}

// covers tells whether all leases that a handle has were given back, or have ended in another way.
// A lease that the owner acquired with another token was not given back. A running exec keeps its handle:
// it has lost its lease.
func (t *tidying) covers(ctx context.Context, r lockfile.Record) bool {
	return (r.State == lockfile.HandleHeld || r.State == lockfile.HandleReleasing) && len(r.Leases) > 0 &&
		!r.AcquiredAt.After(t.began) && r.Owner == t.owner && t.h.Dialer.StoreOf(r.Store, r.Proxy) == t.store && t.isOver(ctx, r) &&
		!t.h.Journal.HasExec(r.RequestID)
}

// isOver tells whether all leases of r have ended. The proxy is asked about names that are not
// among the released ones: they ended before, or the answer with them was lost.
func (t *tidying) isOver(ctx context.Context, r lockfile.Record) bool {
	if !slices.ContainsFunc(r.Leases, func(l lockfile.Lease) bool { return !slices.Contains(t.released, l.Name) }) {
		return true
	}
	over, asked := t.over[r.RequestID]
	if !asked {
		state, err := t.proxy.RequestState(ctx, r.RequestID)
		over = err == nil && state.State == leaseapi.StateEnded // an unknown one may be of a pool that our token does not see
		if t.over == nil {
			t.over = make(map[string]bool)
		}
		t.over[r.RequestID] = over
	}
	return over
}
