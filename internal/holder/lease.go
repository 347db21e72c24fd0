package holder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Lease is the result of one acquire: the leases behind one handle. The caller gives them back
// with [Lease.Release], or leaves them to the handle's user with [Lease.HandOver].
type Lease struct {
	h      *Holder
	handle lockfile.Handle
	record lockfile.Record
	proxy  *v1.Proxy
	grant  *v1.Grant // nil until it is granted

	phase phase
	kind  lockfile.Kind // of its journal entry
	// private: nobody else has been told of the handle, so it is not written before it has
	// names.
	private bool
	around  string // as in [Request]
	// mayBeInHandle: this process began to write the request into the handle. If that failed
	// halfway, as on a full disk, the handle may have the request.
	mayBeInHandle bool
	// replaced is the record whose leases the request replaces; the zero Record: none.
	replaced lockfile.Record
	taken    bool // the proxy may have taken the request, and so have ended the leases of replaced
	// deadline is when the lease ends unless it is renewed before; zero: never.
	deadline proxyclient.Instant
	part     Part        // nil: the lease is this process's alone
	over     atomic.Bool // this process gave it back
}

// Part is one command's part in a lease that several commands hold together, as in holder/shared. Each
// method is behind that of [Lease].
type Part interface {
	Keep(ctx context.Context, o KeepOptions) (kept context.Context, stop func())
	Release(ctx context.Context) (released []string, err error)
	Uses() string
	Variables() []string
}

// Join returns a lease that several commands hold together, as its record and its grant say, with this
// command's part in it. No journal entry of this process is about it.
func (h *Holder) Join(handle lockfile.Handle, r lockfile.Record, grant *v1.Grant, p Part) *Lease {
	return &Lease{h: h, handle: handle, kind: lockfile.KindAcquire, phase: recorded, record: r, grant: grant, part: p}
}

// phase is how far an acquire has come. It says what a rollback must undo, and what a killed
// process leaves.
type phase int

const (
	// intended: the journal has the request; the proxy and the handle have not.
	intended phase = iota
	// enqueued: the proxy may have the request, and the handle has it unless it
	// is private.
	enqueued
	// granted: the proxy has granted the lease provisionally; the handle does not have the
	// names.
	granted
	// recorded: the handle has the names.
	recorded
)

// Handle returns the path of the handle.
func (l *Lease) Handle() string { return l.handle.Path() }

// Names returns the names of the leases, in the order they were granted.
func (l *Lease) Names() []string { return l.record.Names() }

// NamesOf returns the names of the leases by the type of their pool, for a request of several types;
// nil for any other.
func (l *Lease) NamesOf() map[string][]string {
	if len(l.record.Also) == 0 {
		return nil
	}
	of := make(map[string][]string)
	for _, lease := range l.record.Leases {
		of[lease.Type] = append(of[lease.Type], lease.Name)
	}
	return of
}

// Deadline returns when the lease ends unless it is renewed before; zero: it does not end by itself.
func (l *Lease) Deadline() proxyclient.Instant { return l.deadline }

// Owner returns the owner of the lease, as the proxy was told.
func (l *Lease) Owner() string { return l.record.Owner }

// Generation returns the highest generation of the leases. It grows with every grant of a
// server, so it is a fencing token. Zero: the proxy gives none.
func (l *Lease) Generation() uint64 {
	var highest uint64
	for _, lease := range l.grant.Grant.Leases {
		highest = max(highest, lease.Generation)
	}
	return highest
}

// Uses names the uses of shared leases that this process has or runs under. A leasectl below
// this process takes them as Within of its shared.Options. "" if this lease is not shared.
func (l *Lease) Uses() string {
	if l.part == nil {
		return ""
	}
	return l.part.Uses()
}

// Variables returns the variables that the service of a shared lease has announced, in the form of
// [os.Environ]; none if the lease has no service.
func (l *Lease) Variables() []string {
	if l.part == nil {
		return nil
	}
	return l.part.Variables()
}

// Record returns the record of the lease's handle, as this process knows it.
func (l *Lease) Record() lockfile.Record { return l.record }

// Grant returns what the proxy granted.
func (l *Lease) Grant() *v1.Grant { return l.grant }

// RequestID returns the id of the lease's request. The proxy knows the lease by this id even
// after the lease has ended. Empty: the proxy knows no request ids.
func (l *Lease) RequestID() string {
	if l.grant.Capabilities != proxyclient.Ours {
		return ""
	}
	return l.record.RequestID
}

// TTL returns how long the lease lasts after a renewal, as granted; zero: until
// it is released.
func (l *Lease) TTL() time.Duration { return l.grant.TTL }

// Units returns how many units of a counted pool the lease was granted, or held when this
// process joined it. Zero: the pool is a listed one.
func (l *Lease) Units() int { return l.grant.Units }

// OfMemory tells whether the lease is of a counted pool whose unit is a number of bytes.
func (l *Lease) OfMemory() bool { return leaseapi.IsMemory(l.grant.Unit) }

// Used notes the peak memory of the lease's command. The release tells the proxy.
func (l *Lease) Used(peak leaseapi.Peak) {
	l.h.endings.note(l.record.RequestID, func(e *ending) { e.peak = &peak })
}

// Exited notes the exit code of the lease's command, which ended by itself. Requests that have
// joined this one end with the same code.
func (l *Lease) Exited(code int) {
	l.h.endings.note(l.record.RequestID, func(e *ending) { e.exitCode = &code })
}

// Tell notes what the account said so far. The release of the lease tells the proxy, if this
// process sends that release.
func (l *Lease) Tell(o Outcome) {
	l.h.endings.note(l.record.RequestID, func(e *ending) { e.outcome = o })
}

// Report tells the proxy at once what the account said, and returns whether the proxy counts
// it. The lease may have ended. It takes at most [cleanup.Timeout]. See [Holder.Report]. A proxy
// that takes no reports counts none, which is no error: its releases take none along either.
func (l *Lease) Report(ctx context.Context, o Outcome) (counts bool, err error) {
	counts, err = l.h.Report(ctx, l.record, o)
	if errors.Is(err, proxyclient.ErrVersion1) {
		l.h.Reporter.Debugf("%v", err)
		return false, nil
	}
	return counts, err
}

// Is tells whether a handle's record is of this lease's request.
func (l *Lease) Is(r lockfile.Record) bool { return r.RequestID == l.record.RequestID }

// aged tells whether the grant took so long to arrive that it may have ended, or may end
// before this process has confirmed it.
func (l *Lease) aged() bool {
	return l.grant.Capabilities == proxyclient.Ours && proxyclient.Now().Sub(l.grant.Asked) > min(l.grant.RenewEvery, leaseapi.ProvisionalTTL/3)
}

// confirm makes a provisional grant firm by its first renewal. The proxy ends an unconfirmed
// grant after [leaseapi.ProvisionalTTL], which also bounds how long confirm tries.
func (l *Lease) confirm(ctx context.Context) error {
	if l.grant.Capabilities != proxyclient.Ours {
		l.h.Reporter.Debugf("the proxy speaks version 1: the lease needs no confirmation")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaseapi.ProvisionalTTL)
	defer cancel()
	renewal, err := l.proxy.Renew(ctx, l.grant.Grant.Leases, 0)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not done in %s, when the proxy takes it back: %w", leaseapi.ProvisionalTTL, err)
	}
	if err != nil {
		return fmt.Errorf("confirm the lease: %w", err)
	}
	l.deadline = renewal.Asked.Add(min(renewal.Deadline.Sub(renewal.Asked), l.grant.TTL))
	return nil
}

// Release gives the lease back, and returns the names that were released: none if the lease was
// given back before. It does so even if the handle is gone or cannot be read. It takes at most
// [cleanup.Timeout], and at most 3 s once ctx has ended; the last user of a service may take the grace
// period of that longer.
//
// Release of a shared lease ends this process's use. The last user gives the lease back, or
// leaves it to linger.
func (l *Lease) Release(ctx context.Context) (released []string, err error) {
	if l.part != nil {
		return l.part.Release(ctx)
	}
	if l.over.Load() {
		return nil, nil
	}
	released, err = l.h.releaseOwn(ctx, l.handle, l.Is, l.record)
	l.over.Store(err == nil)
	return released, err
}

// Leave leaves a lease that [Lease.Release] could not give back to the next run. That run then
// says that this process failed, and not that it was killed.
func (l *Lease) Leave() { l.h.Journal.Leave(l.record.RequestID) }

// ReleaseIfRemoved is [Lease.Release] if the handle is gone, or has another lease. It does nothing
// otherwise, nor for a shared lease. Callers use it before they acquire another lease into the handle: that
// acquire gives back only the leases that the handle still has.
func (l *Lease) ReleaseIfRemoved(ctx context.Context) (released []string, err error) {
	if l.part != nil || l.over.Load() {
		return nil, nil
	}
	r, err := l.handle.Read()
	if errors.Is(err, fs.ErrNotExist) || err == nil && !l.Is(r) {
		return l.h.releaseWithoutHandle(ctx, l.record)
	}
	return nil, nil
}

// Vacate gives back, once the lease is over, what its handle has all the same, since somebody has acquired
// into it. Of a handle that the user named it only says so, if the command of this process did it.
func (l *Lease) Vacate(ctx context.Context, own bool) (released []string, err error) {
	if l.part != nil || !l.handle.HasRecord() {
		return nil, nil
	}
	r, err := l.handle.Read()
	if err != nil || l.Is(r) || r.Bare() {
		return nil, nil
	}
	if own {
		released, _, err = l.h.releaseHandle(ctx, cleanup.Timeout, l.handle, func(r lockfile.Record) bool { return !r.Bare() })
	} else if r.Within == l.record.RequestID && r.Unreleased() {
		l.h.Reporter.Notef("handle %s now holds %s, which its command took: leasectl release --handle %[1]s gives it back", l.handle.Path(), r.Describe())
	}
	return released, err
}

// KeepOptions say how [Lease.Keep] keeps a lease.
type KeepOptions struct {
	// Margin is how long before its end the lease counts as lost. The caller needs this time to
	// stop its use of the lease.
	Margin time.Duration
	// ConfirmAfter puts off the first renewal, which confirms the grant, by this time: see [ConfirmAfter].
	ConfirmAfter time.Duration
	// ReleaseAfter is how long after its acquire the lease is given back; zero: Keep does not
	// give it back. The proxy is not told in advance: if this process dies, the lease ends with
	// its TTL. A shared lease ignores ReleaseAfter.
	ReleaseAfter time.Duration
}
