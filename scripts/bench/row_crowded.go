package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

const (
	crowdWaiters = 5_000
	crowdEvery   = time.Second / 40 // a lease changes hands
	crowdRenewal = 2 * time.Millisecond
	crowdWindow  = time.Second
	crowdRounds  = 15
	crowdSlower  = 2 // 90 % of renewals while leases change hands ÷ while none does
)

// measureCrowded measures renewals of one lease on a server with 100,000 leases held and 5,000
// waiters, who come back each time that their slice is over: while leases change hands, and
// while none does.
func measureCrowded(ctx context.Context, w *world) (_ []result, err error) {
	config := pool.Config{Type: "many", Names: pool.Numbered("many", many)}
	dir := w.fresh("data")
	if err := fill(dir, config, many-1, 0); err != nil {
		return nil, err
	}
	s, _, err := w.startMany(ctx, dir, many, 2*crowdWaiters)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	c, err := dial(s.addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	text, err := c.call(http.MethodPost, leaseapi.PathAcquire, `{"type":"many","owner":"renews"}`)
	if err != nil {
		return nil, err
	}
	var got leaseapi.AcquireReply
	if err := json.Unmarshal(text, &got); err != nil {
		return nil, err
	}
	renewal, err := json.Marshal(leaseapi.RenewRequest{Leases: got.Leases, TTL: leaseapi.Duration(time.Hour)})
	if err != nil {
		return nil, err
	}
	crowd, err := gather(ctx, s.addr)
	defer crowd.leave()
	if err != nil {
		return nil, err
	}
	changes, err := dial(s.addr)
	if err != nil {
		return nil, err
	}
	defer changes.close()
	next := 0 // of the names whose lease changes hands
	window := func(change bool) (took []float64, err error) {
		begin := time.Now()
		var running sync.WaitGroup
		defer running.Wait()
		failed := make(chan error, 1)
		if change {
			running.Go(func() {
				for at := crowdEvery; at < crowdWindow; at += crowdEvery {
					time.Sleep(time.Until(begin.Add(at)))
					changes.releasing(config.Names[next])
					if _, err := changes.answer(); err != nil {
						failed <- err
						return
					}
					if next++; config.Names[next] == got.Names[0] {
						next++
					}
				}
			})
		}
		for at := time.Duration(0); at < crowdWindow; at += crowdRenewal {
			time.Sleep(time.Until(begin.Add(at)))
			began := time.Now()
			if _, err := c.call(http.MethodPost, leaseapi.PathRenew, string(renewal)); err != nil {
				return nil, err
			}
			took = append(took, time.Since(began).Seconds())
		}
		select {
		case err = <-failed:
		case err = <-crowd.failed:
		default:
		}
		return took, err
	}
	var quiet, changing []float64
	for range crowdRounds {
		for _, change := range []bool{false, true} {
			took, err := window(change)
			if err != nil {
				return nil, err
			}
			if change {
				changing = append(changing, took...)
			} else {
				quiet = append(quiet, took...)
			}
		}
	}
	const still = "while none does"
	r := resultOf(fmt.Sprintf("90 %% of renewals, %d held, %d wait, while 40 leases a second change hands", many, crowdWaiters), inSeconds,
		[]measure{quantile("leasectl", changing, 0.9), quantile(still, quiet, 0.9)})
	r.budget(still, atMost(crowdSlower))
	middle := resultOf("… the median", inSeconds, []measure{median("leasectl", changing), median(still, quiet)})
	return []result{r, middle}, nil
}

// gathering is clients that wait. One whose request is granted keeps the lease, and waits with another
// request.
type gathering struct {
	waiters queue
	gone    atomic.Bool
	failed  chan error // of the first that failed
	running sync.WaitGroup
}

// gather lets a crowd come, evenly during a slice: so they come back evenly, too. The caller must let it
// leave, even after an error.
func gather(ctx context.Context, addr string) (*gathering, error) {
	c := &gathering{failed: make(chan error, 1)}
	begin := time.Now()
	for i := range crowdWaiters {
		time.Sleep(time.Until(begin.Add(leaseapi.SliceTime * time.Duration(i) / crowdWaiters)))
		if err := ctx.Err(); err != nil {
			return c, err
		}
		w, err := dial(addr)
		if err != nil {
			return c, err
		}
		c.waiters = append(c.waiters, w)
		c.running.Go(func() {
			if err := c.wait(w, i); !c.gone.Load() {
				select {
				case c.failed <- err:
				default:
				}
			}
		})
	}
	return c, nil
}

// wait waits as leasectl does, until the crowd leaves, which ends it with an error.
func (c *gathering) wait(w *wire, index int) error {
	for round := 0; ; {
		id := fmt.Sprint("crowd-", index, "-", round)
		ask := leaseapi.AcquireRequest{Ask: leaseapi.Ask{Type: "many"}, Owner: fmt.Sprint("job-", index), RequestID: id}
		if err := w.asking(ask); err != nil {
			return err
		}
		status, text, err := w.anyAnswer()
		switch {
		case err != nil:
			return err
		case status == http.StatusOK:
			round++
		case status != http.StatusAccepted:
			return fmt.Errorf("waiter %d: %d: %s", index, status, text)
		}
	}
}

func (c *gathering) leave() {
	c.gone.Store(true)
	c.waiters.close()
	c.running.Wait()
}
