package proxyserver

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

// A request for 10 of 50 is not starved by a steady stream of requests for one,
// although its client waits in slices and is away for a moment after each.
func TestLargeRequestInSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{{Type: "q", Names: names(50)}}})
		begin := time.Now()
		// Ones: two a second, each held for 40 s: they would use 80 of 50.
		for n := range 400 {
			go func() {
				time.Sleep(time.Duration(n) * 500 * time.Millisecond)
				one := p.granted("type=q")
				time.Sleep(40 * time.Second)
				p.release(`{"names":["` + one.Names[0] + `"]}`)
			}()
		}
		time.Sleep(time.Minute) // by now there is a queue of ones
		asked := time.Now()
		ahead := p.pools()[0].Waiting
		slices := 0
		for {
			r := p.acquire("type=q&count=10&request_id=large&wait=1h")
			if r.status == 200 {
				break
			}
			decode[leaseapi.Queued](t, r, 202)
			slices++
			time.Sleep(time.Second)
		}
		// What was ahead, and then ten more, at 50 in 40 s, or a little later.
		most := time.Duration(ahead+10)*40*time.Second/50 + 45*time.Second
		if took := time.Since(asked); took > most || slices == 0 || ahead == 0 {
			t.Errorf("it took %v and %d slices behind %d, want at most %v", took, slices, ahead, most)
		}
		time.Sleep(10*time.Minute - time.Since(begin))
		synctest.Wait()
	})
}

// A waiter whose client is gone holds nobody up, and its place is there when it
// comes back in time.
func TestGoneWaiterHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.granted("type=q")
		// It waits for a slice of 25 s, and does not come back at once.
		if r := p.acquire("type=q&request_id=gone&wait=1h"); r.status != 202 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		var waits []<-chan reply
		for n := range 2 {
			waits = append(waits, p.later(t.Context(), fmt.Sprintf("type=q&request_id=w%d&wait=1h", n)))
			synctest.Wait()
		}
		time.Sleep(leaseapi.SliceGap) // as long as it counts as there
		begin := time.Now()
		p.release(`{"names":["q-0"]}`)
		if r := <-waits[0]; r.status != 200 || time.Since(begin) > time.Second {
			t.Errorf("after %v: %d %s", time.Since(begin), r.status, r.body)
		}
		back := p.later(t.Context(), "type=q&request_id=gone&wait=1h")
		synctest.Wait()
		p.release(`{"names":["q-0"]}`)
		if r := <-back; r.status != 200 {
			t.Errorf("its place was not kept: %d %s", r.status, r.body)
		}
		p.release(`{"names":["q-0"]}`)
		<-waits[1]
	})
}
