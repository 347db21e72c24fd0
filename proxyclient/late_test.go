package proxyclient

import (
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// afterAnswer makes c pause for d after the first answer to an acquire was read, before the
// client notes that answer.
func afterAnswer(c *Client, d time.Duration) {
	var asked atomic.Int32 // for the HTTP proxy of an acquire: before the attempt, and after its answer
	c.transport.Proxy = func(r *http.Request) (*url.URL, error) {
		if r.URL.Path == leaseapi.PathAcquire && asked.Add(1) == 2 {
			time.Sleep(d)
		}
		return nil, nil
	}
}

// A grant that was read counts, although a question about its attempt finds meanwhile that
// the proxy is gone, or that it answers others.
func TestAnswerBeforeCut(t *testing.T) {
	bubble(t, "version 1, which takes no connections", func(t *testing.T) {
		v := newVersion1(t)
		v.known("a")
		c, m := serve(t, v)
		time.AfterFunc(time.Second, func() { m.Close() }) // requests under way go on
		time.AfterFunc(maxTrouble-5*time.Second, func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.put("a")
		})
		afterAnswer(c, maxTrouble)
		g, err := c.Acquire(t.Context(), hour)
		want(t, err)
		if len(g.Leases) != 1 || g.Leases[0].Name != "a" {
			t.Errorf("granted %v", g.Leases)
		}
	})
	bubble(t, "ours, after the end of the wait", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s, fault{}, fault{delay: 2 * time.Second})
		_, err := c.Capabilities(t.Context())
		want(t, err)
		afterAnswer(c, answerTime)
		_, err = c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, RequestID: "id"})
		want(t, err)
	})
}

// No two callbacks of a request run at the same time, though questions about an attempt run
// beside it and beside each other.
func TestCallbacksOneByOne(t *testing.T) {
	late := func(f fault, d time.Duration) fault {
		f.delay = d
		return f
	}
	bubble(t, "a late answer ends the late question", func(t *testing.T) {
		queued := fault{status: 202, body: `{"request_id":"id","place":1}`}
		c, _ := serve(t, newOurs(t), fault{}, late(queued, 3*time.Second), late(badGateway, time.Second))
		_, err := c.Capabilities(t.Context())
		want(t, err)
		told := 0
		_, err = c.Acquire(t.Context(), Request{
			Ask: leaseapi.Ask{Type: "t", Count: 1}, RequestID: "id",
			OnQueued:  func(leaseapi.Queued) { time.Sleep(2 * time.Second) },
			OnTrouble: func(error, time.Time) { told++ },
		})
		want(t, err, ErrExhausted)
		if told != 0 {
			t.Errorf("told of trouble %d times", told)
		}
	})
	bubble(t, "each holds the lock of all", func(t *testing.T) {
		place := fault{status: 200, body: `{"request_id":"id","state":"queued","place":1}`}
		c, _ := serve(t, newOurs(t), fault{}, badGateway, hanging, place, badGateway)
		_, err := c.Capabilities(t.Context())
		want(t, err)
		a := acquisition{client: c}
		var calls [3]int
		call := func(kind int) {
			calls[kind]++
			if a.patience.mu.TryLock() {
				t.Errorf("another callback may run beside callback %d", kind)
				a.patience.mu.Unlock()
			}
		}
		a.request = Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, RequestID: "id", Wait: time.Second, OnQueued: func(leaseapi.Queued) { call(0) }}
		a.patience = patience{
			end: Now().Add(time.Second), limits: usualLimits,
			onRetry:   func(error) { call(1) },
			onTrouble: func(error, time.Time) { call(2) },
		}
		_, err = a.run(t.Context())
		want(t, err, ErrExhausted)
		if slices.Contains(calls[:], 0) {
			t.Errorf("called %v times", calls)
		}
	})
}
