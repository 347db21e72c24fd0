package proxyclient

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// A request that joined a run waits for the end of the run, however long, and ends with its
// exit code. If the request has to wait for a run of its own, its wait begins anew.
func TestCoalesced(t *testing.T) {
	unknown := problemFault(404, leaseapi.ProblemUnknownRequest) // as leasectl's own server answers
	said := func(status int, body string, delay time.Duration) fault {
		return fault{status: status, body: body, delay: delay, header: http.Header{"Content-Type": {leaseapi.ContentTypeProblem}}}
	}
	joined := said(202, `{"request_id":"R","reason":{"kind":"joined"},"follows":"L"}`, 25*time.Second)
	queued := said(202, `{"request_id":"R","place":1,"length":1,"reason":{"kind":"full"}}`, 25*time.Second)
	ended := said(410, `{"type":"urn:leasectl:problem:coalesced","exit_code":4}`, 0)
	request := Request{Ask: leaseapi.Ask{Type: "t", Key: "k", Coalesce: leaseapi.CoalesceOnce, Variant: "v"}, RequestID: "R", Wait: 30 * time.Second}
	bubble(t, "joined", func(t *testing.T) {
		c, _ := serve(t, nil, unknown, joined, joined, joined, joined, ended)
		_, err := c.Acquire(t.Context(), request)
		want(t, err, ErrCoalesced)
		if e, ok := errors.AsType[*CoalescedError](err); !ok || e.ExitCode != 4 {
			t.Errorf("error %v", err)
		}
	})
	bubble(t, "joined after an answer was lost, and asked about beside the next attempt", func(t *testing.T) {
		late := ended
		late.delay = 20 * time.Second
		c, _ := serve(t, nil, unknown, badGateway, late, fault{status: 200, body: `{"request_id":"R","state":"joined","reason":{"kind":"joined"},"follows":"L"}`})
		r := request
		r.Wait = 5 * time.Second // which a run may outlast
		_, err := c.Acquire(t.Context(), r)
		want(t, err, ErrCoalesced)
	})
	bubble(t, "waits again", func(t *testing.T) {
		c, _ := serve(t, newOurs(t), unknown, joined, joined, queued, queued, queued)
		start := time.Now()
		_, err := c.Acquire(t.Context(), request)
		want(t, err, ErrExhausted)
		if d := time.Since(start); d < 90*time.Second || d > 3*time.Minute {
			t.Errorf("took %s", d)
		}
		time.Sleep(time.Minute) // the server has not seen that the last one was cut
	})
	bubble(t, "joined by a proxy that was not asked for it", func(t *testing.T) {
		c, _ := serve(t, newOurs(t), joined, joined, joined)
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t"}, RequestID: "R", Wait: 30 * time.Second})
		want(t, err, ErrExhausted)
		if d := time.Since(start); d > time.Minute {
			t.Errorf("took %s", d)
		}
		time.Sleep(time.Minute) // the server has not seen that the last one was cut
	})
	bubble(t, "superseded", func(t *testing.T) {
		c, _ := serve(t, nil, unknown, said(410, `{"type":"urn:leasectl:problem:superseded"}`, 0))
		_, err := c.Acquire(t.Context(), request)
		want(t, err, ErrSuperseded)
	})
	plain := request
	plain.Ask = leaseapi.Ask{Type: "t"}
	for _, believed := range []struct {
		name, body string
		request    Request
	}{
		{"coalesced without being asked for it", `{"type":"urn:leasectl:problem:coalesced","exit_code":0}`, plain},
		{"superseded without being asked for it", `{"type":"urn:leasectl:problem:superseded"}`, plain},
		{"an exit code beyond a byte", `{"type":"urn:leasectl:problem:coalesced","exit_code":256}`, request},
		{"a negative exit code", `{"type":"urn:leasectl:problem:coalesced","exit_code":-1}`, request},
	} {
		bubble(t, believed.name, func(t *testing.T) {
			lie := said(410, believed.body, 0)
			c, _ := serve(t, nil, unknown, lie, lie, lie)
			g, err := c.Acquire(t.Context(), believed.request)
			if err == nil || errors.Is(err, ErrCoalesced) || errors.Is(err, ErrSuperseded) {
				t.Errorf("got %v, %v", g, err)
			}
		})
	}
	bubble(t, "without a key", func(t *testing.T) {
		c, m := serve(t, nil)
		r := request
		r.Key = ""
		if _, err := c.Acquire(t.Context(), r); err == nil || m.dials != 0 {
			t.Errorf("error %v after %d dials", err, m.dials)
		}
	})
}
