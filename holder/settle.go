package holder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// settleTime bounds how long an acquire settles the entries of dead processes before its
// own request: some round trips to a proxy that answers.
const settleTime = 500 * time.Millisecond

// settleDead settles the journal entries of dead processes at the proxy that is about to be
// asked. It never fails: it leaves entries that it cannot settle to the next run, or to
// recover.
func (h *Holder) settleDead(ctx context.Context, proxy string) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	s := &settling{h: h, proxyOf: func(recorded string) string {
		if !sameProxy(recorded, proxy) {
			return ""
		}
		return proxy
	}}
	err := h.journal.file().SettleDead(ctx, func(in lockfile.Intent) bool {
		if !sameProxy(in.Proxy, proxy) {
			return false
		}
		done, err := s.settleIntent(ctx, in)
		switch {
		case err != nil:
			h.report.Debugf("journal: %s: %v", describeIntent(in), err)
			if !isUnread(err) {
				cancel() // the other entries would fail for the same reason
			}
			return false
		case done.unconfirmed:
			h.report.Debugf("journal: %s", done.text(in))
			return false
		case len(done.released) > 0:
			h.report.Notef("journal: %s", done.text(in))
		}
		return true
	})
	if err != nil {
		h.report.Debugf("%v", err)
	}
}

// settling settles intents of dead processes.
type settling struct {
	h *Holder
	// proxyOf returns the proxy to ask about an entry, given the recorded one; "" leaves the
	// entry for another time.
	proxyOf func(recorded string) string
}

// settlement is the result of settling an intent.
type settlement struct {
	released    []string
	kept        []string // the handle has these names: they are its user's
	unconfirmed bool     // it is not known which leases are held, or a release might end another's lease
	orphaned    bool     // no process is left to release kept
}

var (
	errOtherProxy = errors.New("it is owed to another proxy")
	// errUncertain: a version-1 proxy would release the name, which may be somebody else's
	// lease now.
	errUncertain = errors.New("it may have been released before")
)

// settleIntent settles one intent, whose lock the caller holds. If the handle has the request,
// its record decides, under its lock. Otherwise the request was given up or never written into
// the handle, and is withdrawn.
func (s *settling) settleIntent(ctx context.Context, in lockfile.Intent) (done settlement, err error) {
	if len(in.Unconfirmed) > 0 {
		return settlement{unconfirmed: true}, nil // until it is forgotten
	}
	if in.Kind == lockfile.KindKeep {
		return s.settleKeeper(in), nil
	}
	named := false // the handle names the leases of the request, so settleHandle settles them
	if handle, err := lockfile.OpenHandle(in.Handle); err == nil {
		done, named, err = s.settleHandle(ctx, handle, in)
		// A dead exec does not need its handle: one that cannot be read counts as missing.
		unread := isUnread(err) && !errors.Is(err, lockfile.ErrNewer)
		if err != nil && !(unread && in.Kind == lockfile.KindExec) {
			return done, err
		}
	} // else no handle can be at that path
	if named || in.Kind == lockfile.KindRelease || done.unconfirmed {
		if len(done.kept) == 0 && !done.unconfirmed {
			s.h.keepers.dismiss(in.Request) // the killed process may be the keeper
		}
		return done, nil
	}
	names, err := s.withdraw(ctx, in)
	if errors.Is(err, errors.ErrUnsupported) {
		done.unconfirmed, err = true, nil
	}
	done.released = append(done.released, names...)
	return done, err
}

// settleKeeper returns the names that a killed keeper of a version-1 lease was to release. It
// does not release them: they may be somebody else's leases, since a copy of the handle may
// have been released.
func (s *settling) settleKeeper(in lockfile.Intent) settlement {
	handle, err := lockfile.OpenHandle(in.Handle)
	if err != nil {
		return settlement{}
	}
	r, err := handle.Read()
	if err != nil || r.State != lockfile.StateHeld || r.RequestID != in.Request || s.h.keepers.wake(in.Request) {
		return settlement{} // the lease was given back, or has another keeper
	}
	return settlement{kept: r.Names(), unconfirmed: true, orphaned: true}
}

// settleHandle gives back the leases that an intent left in its handle. named tells whether
// the handle names the leases of the request.
func (s *settling) settleHandle(ctx context.Context, handle lockfile.Handle, in lockfile.Intent) (done settlement, named bool, err error) {
	var owed []lockfile.Owed
	err = updateHandle(ctx, handle, func(tx *lockfile.Tx) (err error) {
		ours := in.Request != "" && tx.RequestID == in.Request
		if ours && tx.State == lockfile.StateHeld && in.Kind == lockfile.KindAcquire {
			done.kept, named = tx.Names(), true
			return nil
		}
		for _, o := range owedBy(tx.Record) {
			named = named || o.RequestID == in.Request && len(o.Leases) > 0
		}
		if owed = tx.Owed; ours {
			owed = owedBy(tx.Record)
		}
		done, err = s.releaseCertain(ctx, tx, ours)
		return err
	})
	if err == nil && !done.unconfirmed {
		s.h.tidyAfter(owed)
	}
	return done, named, err
}

// releaseCertain is [Holder.releaseHandle], but does not release a bare name that may have been
// released before. Such a name makes the settlement unconfirmed, which is no error.
func (s *settling) releaseCertain(ctx context.Context, tx *lockfile.Tx, all bool) (done settlement, err error) {
	done.released, err = s.h.releaseHandle(ctx, tx, all, s.decide)
	if errors.Is(err, errUncertain) || errors.Is(err, proxyclient.ErrUnconfirmed) {
		done.unconfirmed, err = true, nil
	}
	return done, err
}

// decide is the [decision] of a settling: it refuses other proxies than proxyOf allows, and
// releases that might end somebody else's lease.
func (s *settling) decide(ctx context.Context, o lockfile.Owed) (proxy string, err error) {
	if proxy = s.proxyOf(o.Proxy); proxy == "" {
		return "", fmt.Errorf("release %s: %w", describeOwed(o), errOtherProxy)
	}
	anothers, err := s.h.mayEndAnothersLease(ctx, o, proxy)
	if anothers {
		err = errUncertain
	}
	return proxy, err
}

// withdraw releases the leases of a request, or ends its wait, by the request's id.
func (s *settling) withdraw(ctx context.Context, in lockfile.Intent) ([]string, error) {
	proxy := s.proxyOf(in.Proxy)
	if proxy == "" {
		return nil, fmt.Errorf("withdraw request %s: %w", in.Request, errOtherProxy)
	}
	client, err := s.h.dialer.dialFor(ctx, proxy, origin{proxy: in.Proxy, request: in.Request})
	if err != nil {
		return nil, err
	}
	reply, err := client.Release(ctx, leaseapi.ReleaseRequest{RequestIDs: []string{in.Request}})
	if err != nil {
		return nil, fmt.Errorf("withdraw request %s: %w", in.Request, err)
	}
	return reply.Released, nil
}

// text says how an intent was settled.
func (d settlement) text(in lockfile.Intent) string {
	who := describeIntent(in)
	switch {
	case d.orphaned:
		return fmt.Sprintf("unconfirmed: %s: nobody releases it any more: leasectl release --handle %s does, unless it was released in another way: %s",
			strings.Join(d.kept, ", "), in.Handle, who)
	case len(in.Unconfirmed) > 0:
		return fmt.Sprintf("unconfirmed: %s: %s may still be held behind %s since %s", who,
			strings.Join(in.Unconfirmed, ", "), in.Proxy, in.Begun.Format(time.RFC3339))
	case d.unconfirmed:
		return fmt.Sprintf("unconfirmed: %s: up to %d of type %q may be held at %s since %s",
			who, max(in.Count, 1), in.Type, in.Proxy, in.Begun.Format(time.RFC3339))
	case len(d.released) > 0:
		return fmt.Sprintf("released %s: %s", strings.Join(d.released, ", "), who)
	case len(d.kept) > 0:
		return fmt.Sprintf("kept %s: handle %s has it: release that if nobody needs it: %s", strings.Join(d.kept, ", "), in.Handle, who)
	case in.Kind == lockfile.KindRelease:
		return fmt.Sprintf("nothing left to release in handle %s: %s", in.Handle, who)
	}
	return fmt.Sprintf("withdrawn, nothing was held: %s", who)
}

// describeIntent names an intent's operation and process, and says how the process ended.
func describeIntent(in lockfile.Intent) string {
	what := map[lockfile.Kind]string{
		lockfile.KindAcquire: "acquire",
		lockfile.KindExec:    "exec",
		lockfile.KindRelease: "release",
		lockfile.KindKeep:    "keeper",
	}[in.Kind]
	how := "was killed"
	if in.Left {
		how = "failed"
	}
	return fmt.Sprintf("%s %s (process %d) %s", what, in.ID, in.PID, how)
}
