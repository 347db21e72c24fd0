package holder

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// A release does not write into a handle that it has begun if the journal says so already.
func TestReleaseIsWrittenDownOnce(t *testing.T) {
	w := newWorld(t)
	l := w.take(Request{Count: 1})
	var state lockfile.State
	var entries int
	w.proxy.onRelease = func(http.ResponseWriter, *http.Request) bool {
		state, entries = w.record(l.handle).State, w.journalEntries()
		return false
	}
	if _, _, err := w.giveBack(within(t), l.handle, Anything); err != nil {
		t.Fatal(err)
	}
	if state != lockfile.StateHeld || entries != 1 {
		t.Errorf("the handle is %s, with %d journal entries, when the proxy is told: want held, and one", state, entries)
	}
	w.wantNothingLeft(l.handle, l.Names()...)
}

// A handle of an older program may owe leases to several proxies. If one of them is down, the others are told all the same.
func TestReleaseTellsEachProxy(t *testing.T) {
	w := newWorld(t)
	down := newProxy(t)
	down.Close()
	handle := w.handle("handle")
	owed := func(request, proxy, name string) lockfile.Owed {
		return lockfile.Owed{RequestID: request, Proxy: proxy, Leases: []lockfile.Lease{{Name: name, Generation: 1}}, Unsent: true}
	}
	first := owed("a", down.URL, "lease1")
	w.write(handle, lockfile.Record{State: lockfile.StateReleasing, Earlier: []lockfile.Owed{first, owed("b", w.proxy.URL, "lease2"), owed("c", down.URL, "lease3")}})

	released, _, err := w.giveBack(within(t), handle, Anything)
	if !slices.Equal(released, []string{"lease2"}) || !errors.Is(err, proxyclient.ErrUnreachable) {
		t.Errorf("released %v, %v", released, err)
	}
	if left := w.record(handle); !slices.Equal(left.NamesInFile(), []string{"lease1", "lease3"}) {
		t.Errorf("the handle is %+v", left)
	}
}
