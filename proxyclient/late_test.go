package proxyclient

import (
	"net/http"
	"net/url"
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
		_, err = c.Acquire(t.Context(), Request{Type: "t", Count: 1, RequestID: "id"})
		want(t, err)
	})
}
