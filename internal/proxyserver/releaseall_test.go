package proxyserver

import (
	"slices"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// A release of all ends the leases and waits of one owner; with tokens in use, only those of
// the same token. It cannot be combined with other releases.
func TestReleaseAll(t *testing.T) {
	_, red, blue, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(3)}})
	red.granted("type=q&owner=me&request_id=a")
	red.granted("type=q&owner=you&request_id=b")
	blue.granted("type=q&owner=me&request_id=c")
	for _, body := range []string{
		`{"all":true}`, `{"all":true,"owner":"me","names":["q-0"]}`, `{"all":true,"owner":"me","request_ids":["a"]}`,
		`{"all":true,"owner":"me","delay":"5m0s"}`, `{"all":true,"owner":"me","leases":[{"name":"q-0","generation":1}]}`,
		`{"all":true,"owner":"me","exit_code":0}`, `{"all":true,"owner":"me","peak":{"bytes":1}}`,
		`{"all":true,"owner":"me","report":{"request_id":"a","outcome":"ok"}}`,
	} {
		if p := decode[leaseapi.Problem](t, red.release(body), 400); p.Type != leaseapi.ProblemBadRequest {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if n := red.inUse(); n != 3 {
		t.Fatalf("%d leases are held", n)
	}
	got := decode[leaseapi.ReleaseReply](t, red.release(`{"all":true,"owner":"me"}`), 200)
	if !got.All || !slices.Equal(got.Released, []string{"q-0"}) || got.Withdrawn != 0 {
		t.Errorf("released %+v", got)
	}
	got = decode[leaseapi.ReleaseReply](t, blue.release(`{"all":true,"owner":"you"}`), 200)
	if len(got.Released) > 0 || red.inUse() != 2 {
		t.Errorf("another token released %+v, %d are held", got, red.inUse())
	}
}
