package holder

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/holder/cleanup"
	"github.com/leasectl/leasectl/holder/usage"
	v1 "github.com/leasectl/leasectl/holder/v1"
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
}

// Named returns what names mean that the user knows since now.
func (h *Holder) Named(names []string) Named {
	n := Named{learned: time.Now()}
	for _, name := range names {
		n.grants = append(n.grants, lockfile.Grant{Lease: lockfile.Lease{Name: name}})
	}
	return n
}

// SharedList returns the list of names in sharedDir, the directory that the steps of a test
// share. The error is [usage.Err] if sharedDir is "". It does not check whether the list can
// be written: [Holder.Acquire] does.
func SharedList(sharedDir string) (lockfile.List, error) {
	if sharedDir == "" {
		return "", usage.Errorf("--scope test: SHARED_DIR is not set: it is the directory whose file leases lists the names")
	}
	dir, err := filepath.Abs(sharedDir)
	if err != nil {
		return "", fmt.Errorf("--scope test: %w", err)
	}
	return lockfile.List(filepath.Join(dir, "leases")), nil
}

// checkList returns an error if names could not be added to a list later.
func checkList(ctx context.Context, list lockfile.List) error {
	if err := list.CanAppend(ctx); err != nil {
		return fmt.Errorf("--scope test: %w", err)
	}
	return nil
}

// Listed returns what the entries of a list mean. It is an error if the list cannot be written,
// because released entries would stay. That does not matter if all entries have generations:
// releasing those again does nothing.
func (h *Holder) Listed(ctx context.Context, list lockfile.List) (Named, error) {
	unwritable := checkList(ctx, list)
	grants, written, err := list.Read()
	nameOnly := func(g lockfile.Grant) bool { return g.Generation == 0 }
	switch {
	case unwritable != nil && (err != nil || len(grants) == 0 || slices.ContainsFunc(grants, nameOnly)):
		return Named{}, unwritable
	case err != nil:
		return Named{}, err
	}
	return Named{grants: grants, learned: written, list: list}, nil
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
	return released, errors.Join(errs...)
}

// byRequest splits the names by the request that got them, in their order. Of most names the
// request is not known.
func (n Named) byRequest() (groups [][]lockfile.Grant) {
	for _, g := range n.grants {
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
	if err := h.Dialer.CheckStore(ctx, p, first.Store, ""); err != nil {
		return nil, err
	}
	var reply leaseapi.ReleaseReply
	var given []v1.Held
	began := time.Now()
	if first.Generation != 0 {
		request := leaseapi.ReleaseRequest{Delay: leaseapi.Duration(delay)}
		for _, g := range of {
			request.Leases = append(request.Leases, leaseapi.Lease{Name: g.Name, Generation: g.Generation})
		}
		reply, err = p.Client.Release(ctx, request)
	} else {
		request := proxyclient.NamesRelease{Names: namesIn(of), Owner: owner, Learned: n.learned, Delay: delay}
		// The store of a version-1 proxy is its address.
		meant := v1.Meant{Proxy: first.Store, Request: first.RequestID, Adapter: first.Adapter}
		reply, given, err = p.ReleaseNames(ctx, request, meant)
	}
	for _, held := range given {
		h.removeReleased(ctx, held, n.handle)
	}
	if names := reply.Released; delay == 0 && len(names) > 0 && len(given) == 0 {
		t := tidying{h: h, proxy: p, owner: owner, store: h.Dialer.StoreOf("", p.Address), released: names, began: began, keepExecs: true}
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
