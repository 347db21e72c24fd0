package shared

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// The next shared lease at a proxy gives back the leases of dead users there, even if it
// reaches the proxy by only one of its URLs.
func TestDeadRoundOfAListedProxy(t *testing.T) {
	w := newWorld(t)
	proxy := w.Proxy.URL + ",http://127.0.0.1:1"
	left := w.Handle("left")
	leases := []lockfile.Lease{{Name: "left", Generation: 7}}
	w.Write(left, lockfile.Record{State: lockfile.HandleHeld, RequestID: "dead", Owner: "job-1", Ask: leaseapi.Ask{Type: "t"}, Proxy: proxy, Leases: leases})
	dir := filepath.Join(w.Dir, "shared")
	if err := lockfile.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	err := lockfile.Shared(filepath.Join(dir, digest("dead"))).Update(t.Context(), func(tx *lockfile.SharedTx) error {
		tx.Name = "dead"
		tx.Rounds = []lockfile.Round{{
			ID: "R1", State: lockfile.RoundHeld, Handle: left.Path(), Type: "t", Proxy: proxy, RequestID: "dead", Leases: leases,
		}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Acquire(holdertest.Within(t), w.Holder, Options{Name: "s"}, holder.Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: w.Handle("handle")})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Proxy.Released(); !slices.Equal(got, []string{"left"}) {
		t.Errorf("released %q", got)
	}
	if _, err := l.Release(holdertest.Within(t)); err != nil {
		t.Error(err)
	}
}
