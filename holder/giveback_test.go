package holder

import (
	"net/http"
	"os"
	"testing"

	"github.com/leasectl/leasectl/lockfile"
)

// A release does not write into a handle what its journal entry says already: that
// its leases are owed. A handle without a request of its own is known by no entry.
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
