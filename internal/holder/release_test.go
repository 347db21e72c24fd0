package holder

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// A release does not write into a handle that it has begun if the journal says so already.
func TestReleaseIsWrittenDownOnce(t *testing.T) {
	w := newWorld(t)
	l := w.take(Request{Ask: leaseapi.Ask{Count: 1}})
	var state lockfile.HandleState
	var entries int
	w.Proxy.OnRelease = func(http.ResponseWriter, *http.Request) bool {
		state, entries = w.record(l.handle).State, w.JournalEntries()
		return false
	}
	if _, _, err := w.releaseHandle(holdertest.Within(t), cleanup.Timeout, l.handle, Anything); err != nil {
		t.Fatal(err)
	}
	if state != lockfile.HandleHeld || entries != 1 {
		t.Errorf("the handle is %s, with %d journal entries, when the proxy is told: want held, and one", state, entries)
	}
	w.WantNothingLeft(l.handle, l.Names()...)
}

// A lease that cannot be given back before the next attempt is named by the journal entry of the
// process that holds it.
func TestAdviceOfAFailedReplacement(t *testing.T) {
	w := newWorld(t)
	l, err := w.Acquire(holdertest.Within(t), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: w.Handle("handle"), WaitTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	l.Tell(Outcome{Word: leaseapi.OutcomeOK}) // so that its release has something to tell, and is sent
	w.Proxy.OnRelease = holdertest.Fails
	ctx, cancel := cleanup.Within(holdertest.Within(t), 200*time.Millisecond)
	defer cancel()
	_, err = w.Acquire(ctx, Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: l.handle, Replaces: l.Is, WaitTimeout: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "recover --forget "+l.record.RequestID+" drops this") {
		t.Errorf("%v", err)
	}
}
