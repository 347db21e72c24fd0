package holder

import (
	"errors"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// A release does not write into a handle that its leases are owed if the journal says so
// already. No journal entry says so for a handle without a request of its own.
func TestReleaseIsWrittenDownOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		bare bool
		want lockfile.State // of the handle when the proxy is told
	}{
		{"a handle", false, lockfile.StateHeld},
		{"a copy of its names", true, lockfile.StateReleasing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			l := w.take(Request{Count: 1})
			handle := l.handle
			if tt.bare {
				if err := os.Remove(handle.Path() + ".json"); err != nil {
					t.Fatal(err)
				}
			}
			var state lockfile.State
			var entries int
			w.proxy.onRelease = func(http.ResponseWriter, *http.Request) bool {
				state, entries = w.record(handle).State, w.journalEntries()
				return false
			}
			if _, err := w.giveBack(within(t), handle, Anything); err != nil {
				t.Fatal(err)
			}
			if state != tt.want || entries != 1 {
				t.Errorf("the handle is %s, with %d journal entries, when the proxy is told: want %s, and one", state, entries, tt.want)
			}
			w.wantNothingLeft(handle, l.Names()...)
		})
	}
}

// A handle may owe leases to several proxies, as after a kill of a reacquire from another
// proxy. If one of them is down, the others are told all the same.
func TestReleaseTellsEachProxy(t *testing.T) {
	w := newWorld(t)
	down := newProxy(t)
	down.Close()
	handle := w.handle("handle")
	owed := func(request, proxy, name string) lockfile.Owed {
		return lockfile.Owed{RequestID: request, Proxy: proxy, Leases: []lockfile.Lease{{Name: name, Generation: 1}}, Unsent: true}
	}
	first := owed("a", down.URL, "lease1")
	w.write(handle, lockfile.Record{State: lockfile.StateReleasing, Owed: []lockfile.Owed{first, owed("b", w.proxy.URL, "lease2"), owed("c", down.URL, "lease3")}})

	released, err := w.giveBack(within(t), handle, Anything)
	if !slices.Equal(released, []string{"lease2"}) || !errors.Is(err, proxyclient.ErrUnreachable) {
		t.Errorf("released %v, %v", released, err)
	}
	if left := namesOf(w.record(handle).Owed); !slices.Equal(left, []string{"lease1", "lease3"}) {
		t.Errorf("the handle owes %v still", left)
	}
}
