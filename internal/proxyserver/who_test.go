package proxyserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// /pools shows waiters as it shows holders, and every answer to a waiter says the same about it.
func TestWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		first := p.granted("type=q&owner=before")
		time.Sleep(80 * time.Second)
		p.release(`{"names":["` + first.Names[0] + `"]}`)
		p.granted("type=q&owner=holder")
		time.Sleep(10 * time.Second)
		queued := p.later(t.Context(), "type=q&owner=me&request_id=r")
		synctest.Wait()
		gone := p.later(t.Context(), "type=q")
		synctest.Wait()
		time.Sleep(5 * time.Second)

		state := decode[leaseapi.RequestReply](t, p.do("GET", "/lease/requests/r", ""), 200)
		if state.Reason.Kind != leaseapi.WaitFull || state.InUse != 1 || state.Capacity != 1 || state.Oldest == nil || state.Oldest.Owner != "holder" {
			t.Errorf("state %+v, oldest %+v", state, state.Oldest)
		}
		// The lease before was held for 80 s, this one has been for 15.
		if got := [2]leaseapi.Duration{state.Estimate, state.EstimateMax}; got != [2]leaseapi.Duration{65e9, 75e9} {
			t.Errorf("estimate %v", got)
		}
		pl := p.pools()[0]
		now := time.Now().Round(time.Millisecond).UTC()
		want := leaseapi.Waiter{RequestID: "r", Place: 1, Owner: "me", Count: 1, Age: 5e9, Since: now.Add(-5 * time.Second),
			Reason: leaseapi.WaitReason{Kind: leaseapi.WaitFull}, Estimate: 65e9, EstimateMax: 75e9}
		if len(pl.Waiters) != 2 || pl.Waiters[0] != want {
			t.Errorf("waiters %+v, want %+v", pl.Waiters, want)
		}
		if w := pl.Waiters[1]; w.RequestID != "" || w.Place != 2 || w.Owner != "" || w.Away {
			t.Errorf("the one of version 1 is %+v", w)
		}
		if l := pl.Leases[0]; !l.Since.Equal(now.Add(-15 * time.Second)) {
			t.Errorf("held since %v", l.Since)
		}

		answer := decode[leaseapi.Queued](t, <-queued, 202)
		if answer.Reason.Kind != leaseapi.WaitFull || answer.Oldest.Owner != "holder" || answer.Estimate != 43e9 || answer.EstimateMax != 53e9 {
			t.Errorf("answer %+v", answer)
		}
		time.Sleep(3 * time.Second)
		if w := p.pools()[0].Waiters[0]; !w.Away {
			t.Errorf("nobody waits with it, and it is %+v", w)
		}
		p.release(`{"names":["q-0"]}`)
		<-gone
	})
}

// The next grant of a pool with a pace has a time as well as a duration.
func TestNextGrantAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quota(2)
		c.Pace = time.Minute
		p := start(t, Options{Pools: []pool.Config{c}})
		p.granted("type=q")
		time.Sleep(20 * time.Second)
		pl := p.pools()[0]
		if pl.NextGrantIn != 40e9 || !pl.NextGrantAt.Equal(time.Now().Add(40*time.Second).Round(time.Millisecond)) {
			t.Errorf("the next grant is in %v, at %v", pl.NextGrantIn, pl.NextGrantAt)
		}
	})
}
