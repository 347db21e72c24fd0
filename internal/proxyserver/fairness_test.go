package proxyserver

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// A steady stream of requests for one unit does not starve a request for 10 of 50, although
// its client waits in slices and is away for a moment after each, and no slice is long enough
// for ten units to become free.
func TestLargeRequestInSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{{Type: "q", Names: pool.Numbered("n", 50)}}})
		const (
			every = 5 * time.Second
			held  = 400 * time.Second // so they would use 80 of 50, and five become free in a slice
		)
		stop := make(chan struct{})
		var ones sync.WaitGroup
		ones.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(every):
				}
				ones.Go(func() {
					one := p.granted("type=q")
					time.Sleep(held)
					p.release(`{"names":["` + one.Names[0] + `"]}`)
				})
			}
		})
		time.Sleep(held + time.Minute) // now there is a queue of requests for one, and some leases have ended
		asked := time.Now()
		ahead := p.pools()[0].Waiting
		slices := 0
		for time.Since(asked) < 2*time.Hour {
			r := p.acquire("type=q&count=10&request_id=large&wait=3h")
			if r.status == 200 {
				break
			}
			decode[leaseapi.Queued](t, r, 202)
			slices++
			time.Sleep(time.Second)
		}
		// The requests ahead, at the most 50 units that overtake it, and then ten units more, at
		// 50 in 400 s; and a round of leases that began later, since they did not begin evenly.
		most := time.Duration(ahead+50+10)*held/50 + held/2
		if took := time.Since(asked); took > most || slices < 3 || ahead == 0 {
			t.Errorf("it took %v and %d slices behind %d, want at most %v", took, slices, ahead, most)
		}
		p.release(`{"request_ids":["large"]}`)
		close(stop)
		ones.Wait()
	})
}

// A waiter whose client has gone holds nobody up, and keeps its place if the client comes
// back in time.
func TestGoneWaiterHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.granted("type=q")
		// It waits for a slice, and does not come back at once.
		if r := p.acquire("type=q&request_id=gone&wait=1h"); r.status != 202 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		var waits []<-chan reply
		for n := range 2 {
			waits = append(waits, p.later(t.Context(), fmt.Sprintf("type=q&request_id=w%d&wait=1h", n)))
			synctest.Wait()
		}
		time.Sleep(leaseapi.SliceGap) // as long as the waiter counts as active
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

// Clients that do not send all of a request, or do not read their answers, and calls that fail,
// delay nobody else.
func TestSlowAndFailingCallsDelayNobody(t *testing.T) {
	p := start(t, durable(t, t.TempDir(), 5))
	for _, text := range []string{
		"POST /lease/acquire?type=q HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", // reads no answer, like the next
		"GET /pools HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /lease/release HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", // has more to say
		"POST /lease/renew HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
		"POST /lease/acquire?type=q HT",
	} {
		c, err := p.pipes.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go io.WriteString(c, text)
	}
	p.http.Timeout = 2 * bodyTime
	eventually(t, func() bool { return p.inUse() == 1 }) // the first client's, which does not read
	begin := time.Now()
	for range 10 {
		one := p.granted("type=q&owner=me")
		if r := p.release(`{"names":["never-was"]}`); r.status != 500 {
			t.Errorf("%d %s", r.status, r.body)
		}
		if r := p.release(`{"names":["` + one.Names[0] + `"]}`); r.status != 204 {
			t.Errorf("%d %s", r.status, r.body)
		}
		if n := p.inUse(); n != 1 {
			t.Errorf("%d leases are held", n)
		}
	}
	// The slow clients are cut off then, so a call that waits for one waits that long.
	if took := time.Since(begin); took >= bodyTime {
		t.Errorf("they waited for %v", took)
	}
}

// When all 50 clients leave at the moment when they are granted 50 leases, all 50 leases come
// back: at once for clients without a request id that leave before the answer, which the
// server sees; else after 30 s in which nobody confirmed them.
func TestAllLeaveWhileTheyAreGranted(t *testing.T) {
	for _, c := range []struct {
		query string
		after time.Duration
	}{
		{"type=q", 0},
		{"type=q&request_id=r%d", leaseapi.ProvisionalTTL},
	} {
		t.Run(c.query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, Options{Pools: []pool.Config{{Type: "q", Names: pool.Numbered("n", 50)}}, Store: openStore(t, t.TempDir())})
				ctx, leave := context.WithCancel(t.Context())
				p.server.term.commitSem <- struct{}{} // a commit that takes long
				for n := range 50 {
					p.later(ctx, strings.ReplaceAll(c.query, "%d", num(uint64(n))))
				}
				synctest.Wait()
				leave()
				synctest.Wait()
				<-p.server.term.commitSem
				synctest.Wait()
				if c.after > 0 {
					if n := p.inUse(); n != 50 {
						t.Errorf("%d leases are held, want those that their clients may come back for", n)
					}
				}
				time.Sleep(c.after)
				synctest.Wait()
				if n := p.inUse(); n != 0 {
					t.Errorf("%d leases are held by clients that have gone", n)
				}
				if p.granted("type=q&count=50"); len(p.server.term.waiting) != 0 {
					t.Errorf("%d waiters are kept", len(p.server.term.waiting))
				}
			})
		})
	}
}
