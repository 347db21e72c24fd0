package v1

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Proxy is a lease proxy of any version. Its calls beside those here are the client's.
type Proxy struct {
	*proxyclient.Client
	Address string // as handles remember it
	Adapter *Adapter
}

// Grant is a grant, with its leases as records have them.
type Grant struct {
	*proxyclient.Grant
	Leases  []lockfile.Lease
	Adapter string // id of the adapter that made the generations; "": the proxy did
}

// GrantOf returns what the proxy granted, from what a record has of it.
func GrantOf(leases []lockfile.Lease, adapter string) *Grant {
	wire := lockfile.Wire(leases)
	if adapter != "" {
		for i := range wire {
			wire[i].Generation = 0
		}
	}
	return &Grant{
		Grant:  &proxyclient.Grant{Leases: wire, Capabilities: proxyclient.CapabilitiesOf(wire)},
		Leases: leases, Adapter: adapter,
	}
}

// takeTime bounds the writing of the files of granted names. A release of an earlier lease of the name
// may hold the lock of the file for 9.5 s, if its answer was lost.
const takeTime = 10 * time.Second

// giveBackTime bounds the release of names whose files cannot be written.
const giveBackTime = 5 * time.Second

// Acquire is [proxyclient.Client.Acquire] for a handle. The names of a version-1 proxy have their
// files once it returns. If these cannot be written, the names are given back.
func (p *Proxy) Acquire(ctx context.Context, r proxyclient.Request, handle string) (*Grant, error) {
	g, err := p.Client.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	granted := &Grant{Grant: g}
	for _, l := range g.Leases {
		granted.Leases = append(granted.Leases, lockfile.Lease{Name: l.Name, Generation: l.Generation, Type: l.Type})
	}
	if g.Capabilities != proxyclient.NamesOnly {
		return granted, nil
	}
	failpoint.Here("kept-unwritten")
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeTime)
	defer cancel()
	if err := p.take(writing, granted, r, handle); err != nil {
		giving, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		defer cancel()
		p.Adapter.drop(giving, p.Address, granted.Leases) // first, so that nobody releases them again after a kill
		given, giveBack := p.Client.ReleaseNames(giving, proxyclient.NamesRelease{Names: lockfile.Names(granted.Leases), Owner: r.Owner})
		if giveBack != nil {
			left := slices.DeleteFunc(lockfile.Names(granted.Leases), func(n string) bool { return slices.Contains(given.Released, n) })
			return nil, &proxyclient.UnconfirmedError{RequestID: r.RequestID, Type: r.Type, Names: left, Err: errors.Join(err, giveBack)}
		}
		return nil, err
	}
	failpoint.Here("kept-held")
	return granted, nil
}

func (p *Proxy) take(ctx context.Context, g *Grant, r proxyclient.Request, handle string) (err error) {
	if g.Adapter, err = p.Adapter.makeID(ctx); err != nil {
		return err
	}
	for i := range g.Leases {
		h := Held{Proxy: p.Address, Name: g.Leases[i].Name, Owner: r.Owner, Handle: handle, Request: r.RequestID, At: time.Now().UTC()}
		if err := p.Adapter.take(ctx, &h); err != nil {
			return err
		}
		g.Leases[i].Generation = h.Generation
	}
	return nil
}

// Record is what a release is told of the leases of a record.
type Record struct {
	Proxy   string // that granted them; "": this one
	Adapter string
	Owner   string
	Handle  string
	Leases  []lockfile.Lease
	// AcquiredAt is when the names were learned, for our server if it has taken the proxy's place.
	AcquiredAt time.Time
}

// ReleaseHeld gives the leases of a record back that a version-1 proxy granted: at that proxy, and at
// our server by their names. A version-1 proxy's reply has them as over if
// this machine gave them back before, or has the name as another lease by now, and as released and
// over if the proxy did not know them. It is valid even with an error, which is an
// [UnconfirmedError] if the outcome of a release is not known.
func (p *Proxy) ReleaseHeld(ctx context.Context, r Record) (reply leaseapi.ReleaseReply, err error) {
	can, err := p.Capabilities(ctx)
	if err != nil {
		return leaseapi.ReleaseReply{}, err
	}
	if can != proxyclient.NamesOnly {
		return p.Client.ReleaseNames(ctx, proxyclient.NamesRelease{Names: lockfile.Names(r.Leases), Owner: r.Owner, Learned: r.AcquiredAt})
	}
	ours := r.Adapter != "" && r.Adapter == p.Adapter.ID()
	return p.each(ctx, lockfile.Names(r.Leases), func(i int) one {
		lease := r.Leases[i]
		return one{
			held:    Held{Proxy: r.Proxy, Name: lease.Name, Generation: lease.Generation, Owner: r.Owner, Handle: r.Handle, At: time.Now().UTC()},
			unknown: !ours,
			means: func(h Held) string {
				if h.Generation == lease.Generation {
					return ""
				}
				return givenBack
			},
		}
	})
}

// givenBack says of a lease that this machine has no file of that it was given back.
const givenBack = "given back before"

// Tolerance is how much later than a name was learned its lease may have been granted, since file
// systems and clocks differ. It is that of our server.
const Tolerance = 2 * time.Second

// Meant says which lease of a name is meant, as far as that is known.
type Meant struct {
	Proxy   string // that granted it; "": the one that is asked
	Request string // that got it; "": not known
	Owner   string // that has it
	Adapter string // that gave it a generation; "": not known
}

// ReleaseNames gives leases back by their names: at our server as
// [proxyclient.Client.ReleaseNames], and at a version-1 proxy the leases that this machine has of
// these names. given are those that were given back: their handles have nothing left to release.
func (p *Proxy) ReleaseNames(ctx context.Context, n proxyclient.NamesRelease, meant Meant) (reply leaseapi.ReleaseReply, given []Held, err error) {
	can, err := p.Capabilities(ctx)
	if err != nil {
		return leaseapi.ReleaseReply{}, nil, err
	}
	if can != proxyclient.NamesOnly {
		reply, err = p.Client.ReleaseNames(ctx, n)
		return reply, nil, err
	}
	if n.Delay > 0 {
		return leaseapi.ReleaseReply{}, nil, fmt.Errorf("put off: %w by a version-1 proxy", errors.ErrUnsupported)
	}
	reply, err = p.each(ctx, n.Names, func(i int) one {
		return one{
			held:    Held{Proxy: meant.Proxy, Name: n.Names[i], Owner: meant.Owner, At: time.Now().UTC()},
			unknown: meant.Adapter == "" || meant.Adapter != p.Adapter.ID(),
			means: func(h Held) string {
				switch {
				case meant.Request != "" && h.Request != meant.Request:
					return "it was granted again at " + h.At.Local().Format(time.RFC3339)
				case h.Owner != meant.Owner && h.Owner != "":
					return "it is held by " + leaseapi.Printable(h.Owner)
				case !n.Learned.IsZero() && h.At.After(n.Learned.Add(Tolerance)):
					return "it was granted later, at " + h.At.Local().Format(time.RFC3339)
				}
				return ""
			},
			released: func(h Held) { given = append(given, h) },
		}
	})
	return reply, given, err
}

// one is the release of one name.
type one struct {
	held     Held                // the lease, if there is no file
	unknown  bool                // without a file the release is sent all the same, since it is not known whether it was before
	means    func(h Held) string // why the lease of a file is not meant; "" if it is
	released func(Held)          // called for the file of a lease that was given back; may be nil
}

// each releases names one after the other.
func (p *Proxy) each(ctx context.Context, names []string, of func(i int) one) (reply leaseapi.ReleaseReply, err error) {
	var doubtful []Held
	var errs []error
	for i, name := range names {
		o := of(i)
		if o.held.Proxy == "" {
			o.held.Proxy = p.Address
		}
		answer, err := p.release(ctx, o)
		reply.Released = append(reply.Released, answer.Released...)
		reply.Stale, reply.Over = append(reply.Stale, answer.Stale...), append(reply.Over, answer.Over...)
		if unconfirmed, ok := errors.AsType[*UnconfirmedError](err); ok {
			doubtful = append(doubtful, unconfirmed.Leases...)
		} else if err != nil {
			errs = append(errs, fmt.Errorf("release %s: %w", name, err))
		}
	}
	if len(doubtful) > 0 {
		errs = append(errs, &UnconfirmedError{doubtful})
	}
	return reply, errors.Join(errs...)
}

// release releases one name under the lock of its file.
func (p *Proxy) release(ctx context.Context, o one) (reply leaseapi.ReleaseReply, err error) {
	before, found := p.Adapter.look(o.held)
	switch {
	case o.unknown: // a file is needed if the outcome is not known
		if _, err := p.Adapter.makeID(ctx); err != nil {
			return reply, err
		}
	case !found:
		reply.Over = lost(o.held.Name, givenBack)
		return reply, nil
	}
	err = p.Adapter.cell(o.held.Proxy, o.held.Name).Update(ctx, func(tx *lockfile.CellTx) error {
		h, err := settled(tx)
		if err != nil {
			return err
		}
		if h.State == "" {
			if !o.unknown || found && o.means(before) == "" {
				reply.Over = lost(o.held.Name, givenBack) // while this process waited for the lock
				return nil
			}
			h = o.held
		} else if why := o.means(h); why != "" {
			reply.Stale = lost(h.Name, why)
			return nil
		}
		switch h.State {
		case NameUnconfirmed:
			return &UnconfirmedError{[]Held{h}}
		case NameMissing:
			reply.Over = lost(h.Name, givenBack)
			return nil
		}
		reply, err = p.ask(ctx, tx, h)
		if err == nil && o.released != nil {
			o.released(h)
		}
		return err
	})
	return reply, err
}

// look returns what the file of a lease says, without its lock.
func (a *Adapter) look(of Held) (h Held, found bool) {
	found, err := a.cell(of.Proxy, of.Name).Read(&h)
	return h, found || err != nil // one that cannot be read is named under the lock
}

// ask sends the release of h, whose file tx is, and notes the outcome. A lease that had no file
// leaves one only if the outcome is not known.
func (p *Proxy) ask(ctx context.Context, tx *lockfile.CellTx, h Held) (reply leaseapi.ReleaseReply, err error) {
	had := h.State == NameHeld
	h.State, h.Since = NameReleasing, now()
	if err := tx.Set(h); err != nil {
		return reply, err
	}
	failpoint.Here("kept-releasing")
	ctx, cancel := cleanup.Finish(ctx) // a slow pool may need longer than an acquire has for what others left
	defer cancel()
	reply, err = p.Client.ReleaseNames(ctx, proxyclient.NamesRelease{Names: []string{h.Name}, Owner: h.Owner})
	failpoint.Here("kept-answered")
	unknown := slices.ContainsFunc(reply.Over, func(l leaseapi.Lost) bool { return l.Reason == proxyclient.UnknownName })
	switch {
	case err == nil && unknown && had:
		h.State, h.Why = NameMissing, "the proxy did not know it: somebody else released it, or the proxy was restarted and forgot it"
		return reply, tx.Set(h)
	case err == nil:
		return reply, tx.Remove()
	case errors.Is(err, proxyclient.ErrUnconfirmed) || p.MayHaveReached([]string{h.Name}):
		h.State, h.Why = NameUnconfirmed, whyDoubtful(err)
		return reply, errors.Join(tx.Set(h), &UnconfirmedError{[]Held{h}})
	case had: // nothing has arrived
		h.State, h.Since = NameHeld, time.Time{}
		return reply, errors.Join(err, tx.Set(h))
	}
	return reply, errors.Join(err, tx.Remove())
}

// whyDoubtful says why the outcome of a release that failed with err is not known.
func whyDoubtful(err error) string {
	if _, forgotten := errors.AsType[*proxyclient.UnconfirmedReleaseError](err); forgotten {
		return "the proxy forgot it when a release got no good answer"
	}
	return "no good answer: " + leaseapi.Clip(strings.ReplaceAll(err.Error(), "\n", "; "), leaseapi.MaxDetail)
}

func lost(name, why string) []leaseapi.Lost {
	return []leaseapi.Lost{{Lease: leaseapi.Lease{Name: name}, Reason: why}}
}
