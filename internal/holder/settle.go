package holder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/dial"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// settleDead settles the journal entries of dead processes at the proxy that is about to be
// asked. It never fails: it leaves entries that it cannot settle to the next run, or to
// recover.
func (h *Holder) settleDead(ctx context.Context, proxy string) {
	ctx, cancel := context.WithTimeout(ctx, cleanup.SettleTime)
	defer cancel()
	s := &settling{h: h, lockTime: cleanup.SettleTime / 10, proxyOf: func(r lockfile.Record) (string, error) {
		if !dial.Same(r.Proxy, proxy) {
			return "", nil
		}
		return proxy, nil
	}}
	s.caller = sync.OnceValues(func() (leaseapi.Caller, error) {
		p, err := s.proxyFor(ctx, lockfile.Record{Proxy: proxy})
		if err != nil {
			return leaseapi.Caller{}, err
		}
		return p.Caller(ctx)
	})
	err := h.Journal.Journal().SettleDead(ctx, func(in lockfile.Intent) bool {
		if !dial.Same(in.Proxy, proxy) {
			return false
		}
		if s.isOthers(in) {
			return false
		}
		done, err := s.settleIntent(ctx, in)
		switch {
		case isUnread(err):
			h.Reporter.Notef("journal: not given back yet, the next acquire or leasectl recover tries again: %v: %s", err, in.Describe())
			return false
		case err != nil:
			h.Reporter.Debugf("journal: %s: %v", in.Describe(), err)
			if proxyclient.Outage(err) != nil {
				cancel() // the other entries would fail for the same reason
			}
			return false
		case done.Unconfirmed:
			h.Reporter.Debugf("journal: %s", done.Text(in))
			return false
		case len(done.Released) > 0:
			h.Reporter.Notef("journal: %s", done.Text(in))
		}
		return !done.Unsure
	})
	if err != nil {
		h.Reporter.Debugf("%v", err)
	}
	if s.others > 0 {
		caller, _ := s.caller()
		h.Reporter.Notef("journal: left alone what %d killed or failed commands of %s had, since this is %s: leasectl recover with that token gives it back",
			s.others, s.taker, caller)
	}
}

// settling settles intents of dead processes.
type settling struct {
	h *Holder
	// proxyOf returns the proxy to ask about a record; "" leaves its entry for another time.
	proxyOf func(lockfile.Record) (string, error)
	// lockTime is how long to wait for the lock of a handle; zero: as long as a release may take.
	lockTime time.Duration

	// Of settleDead:
	caller func() (leaseapi.Caller, error) // this run's, asked for once
	others int                             // entries of other callers
	taker  leaseapi.Caller                 // one of these
}

// isOthers tells whether an entry is about leases that another caller took, and that may last: they are
// not asked for.
func (s *settling) isOthers(in lockfile.Intent) bool {
	now, ttl := time.Now(), max(in.TTL, renewedFor(in))
	if in.Taker == (leaseapi.Caller{}) || in.Outlived(now, ttl) {
		return false
	}
	caller, err := s.caller()
	if err != nil {
		s.h.Reporter.Debugf("journal: %s: %v", in.Describe(), err)
		return true
	}
	if caller == (leaseapi.Caller{}) || caller == in.Taker {
		return false
	}
	if in.Dead.IsZero() || now.Before(in.Dead.Add(ttl)) { // else it has ended, unless no server ran
		s.others, s.taker = s.others+1, in.Taker
	}
	return true
}

// renewedFor returns how long the leases of an intent last, as its handle says; zero: the handle is gone. A renewal by hand
// is not in the journal.
func renewedFor(in lockfile.Intent) time.Duration {
	handle, err := lockfile.OpenHandle(in.Handle)
	if err != nil {
		return 0
	}
	if r, err := handle.Read(); err == nil && r.RequestID == in.Request {
		return r.TTL
	}
	return 0
}

// Settled is the result of settling an intent.
type Settled struct {
	Released    []string
	Kept        []string // the handle has these names: they are its user's
	Unconfirmed bool     // it is not known which leases are held
	Listed      bool     // the adapter lists the leases that are unconfirmed
	Unsure      bool     // another caller may have made the request: the entry stays for a while
	orphaned    bool     // no process is left to release kept
}

var errOtherProxy = errors.New("it is owed to another proxy")

// SettleIntent gives back what a dead process left, as its intent in the journal says, whose lock the caller
// holds.
func (h *Holder) SettleIntent(ctx context.Context, in lockfile.Intent) (Settled, error) {
	s := settling{h: h, proxyOf: h.Dialer.ProxyOf}
	return s.settleIntent(ctx, in)
}

// SettleHandle gives back what an intent left in its handle. found tells whether the handle had it still.
func (h *Holder) SettleHandle(ctx context.Context, handle lockfile.Handle, in lockfile.Intent) (done Settled, found bool, err error) {
	s := settling{h: h, proxyOf: h.Dialer.ProxyOf}
	return s.settleHandle(ctx, handle, in)
}

// settleIntent settles one intent, whose lock the caller holds. If the handle has the request,
// its record decides, under its lock. Otherwise the request was given up or never written into
// the handle, and is withdrawn.
func (s *settling) settleIntent(ctx context.Context, in lockfile.Intent) (done Settled, err error) {
	if in.Kind == lockfile.KindKeep {
		return s.settleKeeper(in), nil
	}
	found := false // the handle had what the entry is about
	if handle, err := lockfile.OpenHandle(in.Handle); err == nil {
		done, found, err = s.settleHandle(ctx, handle, in)
		// A dead exec does not need its handle: one that cannot be read counts as missing.
		unread := isUnread(err) && !errors.Is(err, lockfile.ErrNewer)
		if err != nil && !(unread && in.Kind == lockfile.KindExec) {
			return done, err
		}
	} // else no handle can be at that path
	if !found && in.Request != "" { // of a release too: the handle may have vanished with its directory
		var names []string
		names, err = s.withdraw(ctx, in)
		if errors.Is(err, errors.ErrUnsupported) {
			done.Unconfirmed, err = in.Kind != lockfile.KindRelease, nil
		}
		done.Released = append(done.Released, names...)
		if err == nil && len(names) == 0 && !done.Unconfirmed {
			done.Unsure, err = s.mayHide(ctx, in)
		}
	}
	if err == nil && !done.Unconfirmed && !done.Unsure && len(done.Kept) == 0 {
		s.h.Keepers.Dismiss(in.Request) // the killed process may be the keeper
	}
	return done, err
}

// settleKeeper returns the names that a killed keeper of a version-1 lease was to release. It
// does not release them, since the process that they are kept for may live.
func (s *settling) settleKeeper(in lockfile.Intent) Settled {
	handle, err := lockfile.OpenHandle(in.Handle)
	if err != nil {
		return Settled{}
	}
	r, err := handle.Read()
	if err != nil || r.State != lockfile.HandleHeld || r.RequestID != in.Request || s.h.Keepers.Wake(in.Request) {
		return Settled{} // the lease was given back, or has another keeper
	}
	return Settled{Kept: r.Names(), Unconfirmed: true, orphaned: true}
}

// settleHandle gives back what an intent left in its handle. found tells whether the handle had it.
func (s *settling) settleHandle(ctx context.Context, handle lockfile.Handle, in lockfile.Intent) (done Settled, found bool, err error) {
	g := releasing{h: s.h, to: s.proxyFor, journaled: true}
	err = updateHandle(ctx, cmp.Or(s.lockTime, cleanup.Timeout), handle, func(tx *lockfile.Tx) error {
		if found = in.Request != "" && tx.RequestID == in.Request; !found {
			return nil
		}
		if tx.State == lockfile.HandleHeld && in.Kind == lockfile.KindAcquire {
			done.Kept = tx.Names()
			return nil
		}
		if tx.State == lockfile.HandleQueued && in.TTL > 0 { // killed after the grant was noted, and before the handle had it
			tx.Taker, tx.Store = in.Taker, in.Store
		}
		return g.all(ctx, tx)
	})
	done.Released, done.Unsure, done.Unconfirmed = g.released, g.unsure, g.unknowable && in.Kind != lockfile.KindRelease
	if _, listed := errors.AsType[*v1.UnconfirmedError](err); listed {
		done.Unconfirmed, done.Listed, err = true, true, nil
	}
	if done.Unconfirmed {
		return done, found, err
	}
	g.settle(err)
	return done, found, err
}

// proxyFor returns the proxy to which a release is sent. It refuses other proxies than proxyOf
// allows.
func (s *settling) proxyFor(ctx context.Context, r lockfile.Record) (*v1.Proxy, error) {
	proxy, err := s.proxyOf(r)
	switch {
	case err != nil:
		return nil, err
	case proxy == "":
		return nil, errOtherProxy
	}
	return s.h.Dialer.DialFor(ctx, proxy, r)
}

// withdraw releases the leases of a request, or ends its wait, by the request's id. The error is
// [errors.ErrUnsupported] if it is not known which leases the request got.
func (s *settling) withdraw(ctx context.Context, in lockfile.Intent) (released []string, err error) {
	r := s.h.Dialer.Seal(lockfile.Record{RequestID: in.Request, Owner: in.Owner, Proxy: in.Proxy, Store: in.Store, Ask: leaseapi.Ask{Count: in.Count}})
	p, err := s.proxyFor(ctx, r)
	if err != nil {
		return nil, err
	}
	released, err = s.h.sendRelease(ctx, p, in.Handle, r)
	if err != nil {
		return released, fmt.Errorf("withdraw request %s: %w", in.Request, err)
	}
	return released, nil
}

// mayHide is [Holder.mayHide] for the request of an intent.
func (s *settling) mayHide(ctx context.Context, in lockfile.Intent) (bool, error) {
	p, err := s.proxyFor(ctx, lockfile.Record{Proxy: in.Proxy})
	if err != nil {
		return false, err
	}
	return s.h.mayHide(ctx, p, lockfile.Record{RequestID: in.Request, Proxy: in.Proxy, Store: in.Store, Taker: in.Taker, TTL: in.TTL})
}

// Text says how an intent was settled.
func (d Settled) Text(in lockfile.Intent) string {
	who := in.Describe()
	switch {
	case d.orphaned:
		return fmt.Sprintf("unconfirmed: %s: nobody releases it any more: leasectl release --handle %s does, unless it was released in another way: %s",
			strings.Join(d.Kept, ", "), in.Handle, who)
	case d.Listed && len(d.Released) == 0:
		return fmt.Sprintf("unconfirmed: %s: its release got no good answer", who)
	case d.Unconfirmed && !d.Listed:
		return fmt.Sprintf("unconfirmed: %s: up to %d of type %q may be held at %s since %s",
			who, max(in.Count, 1), in.Type, proxyclient.Redacted(in.Proxy), in.Begun.Format(time.RFC3339))
	case len(d.Released) > 0:
		return fmt.Sprintf("released %s: %s", strings.Join(d.Released, ", "), who)
	case len(d.Kept) > 0:
		return fmt.Sprintf("kept %s: handle %s has it: release that if nobody needs it: %s", strings.Join(d.Kept, ", "), in.Handle, who)
	case in.Kind == lockfile.KindRelease:
		return fmt.Sprintf("nothing left to release in handle %s: %s", in.Handle, who)
	}
	if d.Unsure {
		who += ": its entry stays for a while, since another token may have made the request"
	}
	return fmt.Sprintf("withdrawn, nothing was held: %s", who)
}
