package holder

import (
	"fmt"
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
