package proxyclient

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// A call whose time ends in the middle of an attempt reports the answer to the previous
// attempt, or else that the proxy does not answer. An earlier answer to another question
// makes no difference.
func TestOutOfTime(t *testing.T) {
	unknown := problemFault(404, leaseapi.ProblemUnknownRequest) // as leasectl's own server answers
	leases := []leaseapi.Lease{{Name: "a", Generation: 7}}
	renew := func(ctx context.Context, c *Client) error {
		_, err := c.Renew(ctx, leases, 0)
		return err
	}
	release := func(ctx context.Context, c *Client) error {
		_, err := c.Release(ctx, Releasing(leases, "me"))
		return err
	}
	resize := func(ctx context.Context, c *Client) error {
		_, err := c.Resize(ctx, leaseapi.ResizeRequest{Name: "a", Generation: 7, From: 1, Count: 2})
		return err
	}
	report := func(ctx context.Context, c *Client) error {
		_, err := c.Report(ctx, leaseapi.ReportRequest{RequestID: "R", Outcome: leaseapi.OutcomeOK})
		return err
	}
	for _, tt := range []struct {
		name     string
		call     func(context.Context, *Client) error
		faults   []fault
		time     time.Duration
		answered bool
		says     string
	}{
		{"renew: silence", renew, []fault{hanging}, 3 * time.Second, false, "no answer in time"},
		{"renew: an error, silence", renew, []fault{status(500), hanging}, 3 * time.Second, true, "the proxy answered 500 Internal Server Error: no"},
		{"renew: an error, silence, silence", renew, []fault{status(500), hanging, hanging}, 6 * time.Second, false, "no answer in time"},
		{"release: an error, silence", release, []fault{badGateway, hanging}, 3 * time.Second, true, "the proxy answered 502 Bad Gateway"},
		{"resize: silence", resize, []fault{hanging}, 3 * time.Second, false, "no answer in time"},
		{"report: unknown, silence, silence", report, []fault{unknown, hanging, hanging}, 6 * time.Second, false, "no answer in time"},
		{"report: unknown, an error, silence", report, []fault{unknown, status(503), hanging}, 3 * time.Second, true, "the proxy answered 503 Service Unavailable: no"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			c, _ := serve(t, nil, tt.faults...)
			ctx, cancel := context.WithTimeout(t.Context(), tt.time)
			defer cancel()
			err := tt.call(ctx, c)
			if err == nil || errors.Is(err, ErrUnreachable) == tt.answered || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "deadline") {
				t.Errorf("error %v, want %q", err, tt.says)
			}
		})
	}
}

// An acquire whose wait ends while nobody answers is ErrUnreachable, whether its last
// attempt was the request or the question what the proxy can do.
func TestWaitEndsWithoutAnAnswer(t *testing.T) {
	late := lostRequest // as of a proxy that ends while the request queues
	late.delay = time.Second
	for name, tt := range map[string]struct {
		first fault
		r     Request
	}{
		"refused":                   {dialRefused, Request{}},
		"lost, refused":             {lostRequest, Request{}},
		"lost late, refused":        {late, Request{}},
		"several, late, refused":    {late, Request{Ask: leaseapi.Ask{Count: 2}}},
		"a key, late, refused":      {late, Request{Ask: leaseapi.Ask{Key: "k"}}},
		"half an answer, refused":   {halfAnAnswer, Request{}},
		"an answer stalls, refused": {stalledAnswer, Request{}},
	} {
		bubble(t, name, func(t *testing.T) {
			c, _ := serve(t, nil, append([]fault{tt.first}, slices.Repeat([]fault{dialRefused}, 1000)...)...)
			tt.r.Type, tt.r.Wait = "t", 3*time.Second
			if _, err := c.Acquire(t.Context(), tt.r); !errors.Is(err, ErrUnreachable) {
				t.Errorf("error %v", err)
			}
		})
	}
}
