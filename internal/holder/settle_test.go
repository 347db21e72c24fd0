package holder

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// A handle whose lock somebody holds, such as a process that a command left, keeps nobody's lease from
// being given back: neither its own, nor those of other dead processes, and not without a word.
func TestSettleBesideALockedHandle(t *testing.T) {
	w := newWorld(t)
	for i, kind := range []lockfile.Kind{lockfile.KindExec, lockfile.KindRelease, lockfile.KindExec} {
		handle := w.Handle(fmt.Sprint("handle", i))
		name := fmt.Sprint("lease", i)
		r := lockfile.Record{
			State: lockfile.HandleHeld, RequestID: "R-" + name, Owner: "job-1", Ask: leaseapi.Ask{Type: "t", Count: 1}, Proxy: w.Proxy.URL,
			Leases: []lockfile.Lease{{Name: name, Generation: uint64(i + 1)}}, AcquiredAt: time.Now(),
		}
		r = w.Dialer.Seal(r)
		w.Write(handle, r)
		if err := w.Journal.Begin(t.Context(), r.Intent(name, kind, handle.Path())); err != nil {
			t.Fatal(err)
		}
		w.Journal.Leave(name)
		if i < 2 {
			unlock, err := lockfile.Lock(handle.Path() + ".lock")
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
		}
	}
	w.otherProcess().settleDead(holdertest.Within(t), w.Proxy.URL)
	var told []string
	for _, r := range w.Proxy.Releases {
		told = append(told, r.RequestIDs...)
		for _, l := range r.Leases {
			told = append(told, l.Name)
		}
	}
	if !slices.Equal(told, []string{"R-lease0", "lease2"}) || w.JournalEntries() != 1 {
		t.Errorf("the proxy was told to release %v, and %d journal entries are left", told, w.JournalEntries())
	}
	if !w.report.Said("not given back yet") {
		t.Error("nothing was said of the handle that is locked")
	}
}

// An acquire that was killed after its grant was noted, and before the handle had it, is settled by the caller who took the
// lease, also if that has ended. Its entry stayed for a day, and others could not recover.
func TestSettleGrantNotInHandle(t *testing.T) {
	w := newWorld(t)
	w.Proxy.Caller = leaseapi.Caller{Name: "alice"}
	w.Proxy.OnRelease = func(out http.ResponseWriter, _ *http.Request) bool {
		holdertest.Reply(out, http.StatusOK, leaseapi.ReleaseReply{Released: []string{}})
		return true
	}
	handle := w.Handle("handle")
	r := w.Dialer.Seal(lockfile.Record{State: lockfile.HandleQueued, RequestID: "R", Owner: "job-1", Ask: leaseapi.Ask{Type: "t", Count: 1}, Proxy: w.Proxy.URL})
	w.Write(handle, r)
	in := r.Intent("R", lockfile.KindAcquire, handle.Path())
	in.Taker, in.TTL = w.Proxy.Caller, time.Minute
	if err := w.Journal.Begin(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	w.Journal.Leave("R")
	w.otherProcess().settleDead(holdertest.Within(t), w.Proxy.URL)
	if n := w.JournalEntries(); n != 0 || w.record(handle).State != "" {
		t.Errorf("%d entries are left, and %+v", n, w.record(handle))
	}
}

// An exec gives its lease back although a process that its command left holds the lock of its handle.
func TestReleaseBesideALock(t *testing.T) {
	w := newWorld(t)
	l, err := w.Acquire(holdertest.Within(t), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: w.Handle("handle"), WaitTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := lockfile.Lock(l.handle.Path() + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	if released, err := l.Release(holdertest.Within(t)); err != nil || len(released) != 1 {
		t.Errorf("released %v, %v", released, err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}
