package holder

import (
	"os"
	"testing"

	"github.com/leasectl/leasectl/lockfile"
)

// A keeper looks after its lease also while its handle cannot be read, and no longer
// when the handle holds another request.
func TestKeeperOfAnUnreadableHandle(t *testing.T) {
	w := newWorld(t)
	handle := w.handle("handle")
	hold := func(request string) {
		t.Helper()
		w.write(handle, lockfile.Record{State: lockfile.StateHeld, RequestID: request, Leases: []lockfile.Lease{{Name: "lease1", Generation: 1}}})
	}
	hold("request-1")
	k := keeper{h: w.Holder, handle: handle, request: "request-1"}
	if !k.mine() {
		t.Fatal("it does not know its own request")
	}
	away := handle.Path() + ".away"
	if err := os.Rename(handle.Path(), away); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(away, handle.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := handle.Read(); err == nil || !k.mine() {
		t.Errorf("it leaves a lease whose handle cannot be read (%v)", err)
	}
	if err := os.Rename(away, handle.Path()); err != nil {
		t.Fatal(err)
	}
	hold("request-2")
	if k.mine() {
		t.Error("it looks after another request's lease")
	}
}
