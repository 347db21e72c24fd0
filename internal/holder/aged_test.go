package holder

import (
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// A grant whose answer is old may have ended. Its request is sent again, which renews the grant
// or tells that it has ended. In the latter case the lease is asked for anew, whichever way it
// will be held. Before this was mended, exec ended with 125.
func TestAgedGrant(t *testing.T) {
	for _, tt := range []struct {
		name    string
		request Request
		replace bool
	}{
		{name: "exec"},
		{name: "exec, a further attempt", replace: true},
		{name: "acquire", request: Request{Outlives: true}},
		{name: "private", request: Request{Private: true}},
	} {
		for _, ended := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: ", ended"}[ended], func(t *testing.T) {
				w := newWorld(t)
				r := tt.request
				r.Type, r.Count, r.WaitTimeout, r.Handle = "t", 1, time.Second, w.Handle("handle")
				if tt.replace {
					before, err := w.Acquire(holdertest.Within(t), r)
					if err != nil {
						t.Fatal(err)
					}
					r.Replaces = before.Is
				}
				// asked are the request ids of this acquire. If ended is set, the first grant
				// has ended when the proxy is asked for it again.
				var asked []string
				first := w.Proxy.Asked() + 1
				w.Proxy.RenewEvery = time.Nanosecond // each answer is late already
				w.Proxy.OnRenew = holdertest.Lost
				w.Proxy.OnAcquire = func(out http.ResponseWriter, req *http.Request) bool {
					asked = append(asked, wiretest.Asked(req).RequestID)
					return ended && len(asked) == 2 && holdertest.EndedUnseen(out, req)
				}
				l, err := w.Acquire(holdertest.Within(t), r)
				if err != nil {
					t.Fatal(err)
				}
				if w.Proxy.Renewed() > 0 {
					t.Errorf("renewed %d times before it was recorded", w.Proxy.Renewed())
				}
				want := []string{asked[0], asked[0]}
				if ended {
					want = []string{asked[0], asked[0], l.record.RequestID, l.record.RequestID}
				}
				if !slices.Equal(asked, want) || ended && l.record.RequestID == asked[0] {
					t.Errorf("asked as %v, and holds %s", asked, l.record.RequestID)
				}
				if r := w.record(l.handle); r.State != lockfile.HandleHeld || r.RequestID != asked[len(asked)-1] {
					t.Errorf("the handle says %+v", r)
				}
				if got := l.Generation(); got != uint64(first+len(asked)-1) {
					t.Errorf("holds generation %d of the answers %d to %d, want the last", got, first, first+len(asked)-1)
				}
				if n := w.JournalEntries(); n != 1 {
					t.Errorf("the journal has %d entries, want 1", n)
				}
			})
		}
	}
}

// A proxy that needs long for each answer is asked once more, and not for ever.
func TestAgedGrantOfSlowProxy(t *testing.T) {
	w := newWorld(t)
	w.Proxy.RenewEvery = time.Nanosecond
	l, err := w.Acquire(holdertest.Within(t), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: w.Handle("handle"), WaitTimeout: time.Hour, TTL: 3 * time.Hour})
	if err != nil || w.Proxy.Asked() != 2 {
		t.Errorf("asked %d times: %v", w.Proxy.Asked(), err)
	}
	if n := w.report.Times("the lease has a TTL of 5m, not the 3h that were asked for"); n != 1 {
		t.Errorf("said %d times that the TTL was cut", n)
	}
	if _, err := l.Release(holdertest.Within(t)); err != nil {
		t.Error(err)
	}
}

// A request under a new id waits only for the rest of the wait timeout.
func TestWaitLeftForAskingAnew(t *testing.T) {
	w := newWorld(t)
	const wait, spent = time.Hour, 20 * time.Millisecond
	var waits []time.Duration
	w.Proxy.OnAcquire = func(out http.ResponseWriter, r *http.Request) bool {
		waits = append(waits, time.Duration(*wiretest.Asked(r).Wait))
		time.Sleep(spent)
		return len(waits) == 1 && holdertest.EndedUnseen(out, r)
	}
	l, err := w.Acquire(holdertest.Within(t), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: w.Handle("handle"), WaitTimeout: wait})
	if err != nil {
		t.Fatal(err)
	}
	if len(waits) != 2 || waits[1] > wait-spent {
		t.Errorf("asked to wait for %v", waits)
	}
	if _, err := l.Release(holdertest.Within(t)); err != nil {
		t.Error(err)
	}
}

// A lease is granted at the end of the wait, and the proxy fails for a moment while the old
// answer is checked. The acquire still succeeds.
func TestAgedGrantAtTheEndOfTheWait(t *testing.T) {
	w := newWorld(t)
	w.Proxy.RenewEvery = time.Nanosecond
	w.Proxy.OnAcquire = func(out http.ResponseWriter, r *http.Request) bool {
		switch w.Proxy.Asked() {
		case 1:
			time.Sleep(250 * time.Millisecond)
			return false
		case 2, 3:
			out.WriteHeader(http.StatusBadGateway) // for a second
			return true
		}
		return false
	}
	l, err := w.Acquire(holdertest.Within(t), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: w.Handle("handle"), WaitTimeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.Release(holdertest.Within(t))
}

// The second question is the same request, even without a count: a proxy refuses another
// request with the same id. It is repeated until there is an answer, even for a request without
// a wait.
func TestAgedGrantIsAskedForAlike(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, time.Hour} {
		w := newWorld(t)
		w.Proxy.RenewEvery = time.Nanosecond // each answer is late already
		var asked []leaseapi.AcquireRequest
		w.Proxy.OnAcquire = func(_ http.ResponseWriter, req *http.Request) bool {
			q := wiretest.Asked(req)
			q.Wait = nil
			if asked = append(asked, q); len(asked) == 2 {
				panic(http.ErrAbortHandler)
			}
			return false
		}
		if _, err := w.Acquire(holdertest.Within(t), Request{Ask: leaseapi.Ask{Type: "t"}, WaitTimeout: wait, Handle: w.Handle("handle")}); err != nil {
			t.Fatal(err)
		}
		if len(asked) != 3 || !reflect.DeepEqual(asked[0], asked[1]) || !reflect.DeepEqual(asked[0], asked[2]) {
			t.Errorf("wait %s: asked %+v", wait, asked)
		}
	}
}
