package proxyclient

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// What is of wire 4, such as a priority, is sent only to a proxy that is known to heed it.
func TestWire4IsAskedFor(t *testing.T) {
	for _, tt := range []struct {
		request    Request
		what, sent string
	}{
		{Request{Ask: leaseapi.Ask{Priority: -7}}, "a priority", "priority=-7"},
		{Request{Ask: leaseapi.Ask{Key: "k", KeyMode: leaseapi.KeyRead}}, "a key that is read", "key=k&key_mode=read"},
		{Request{Ask: leaseapi.Ask{Name: "a"}}, "a lease of a certain name", "name=a"},
	} {
		tt.request.Type, tt.request.RequestID, tt.request.Wait = "t", "R", time.Minute
		for name, wire := range map[string]int{"wire 2": 2, "wire 3": 3, "wire 4": 0} {
			bubble(t, tt.what+" "+name, func(t *testing.T) {
				proxy := newOurs(t, "a")
				proxy.wire = wire
				h := &recording{Handler: proxy}
				c, _ := serve(t, h)
				_, err := c.Acquire(t.Context(), tt.request)
				sent := strings.Contains(strings.Join(h.seen, "\n"), leaseapi.PathAcquire)
				if wire > 0 {
					older, ok := errors.AsType[*OlderError](err)
					if !ok || older.Needs != tt.what || sent {
						t.Errorf("error %v; seen %q", err, h.seen)
					}
					return
				}
				want(t, err)
				if !strings.Contains(strings.Join(h.seen, "\n"), "?"+tt.sent+"&") {
					t.Errorf("seen %q", h.seen)
				}
			})
		}
	}
	c, _ := serve(t, newOurs(t, "a"))
	if _, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Priority: 101}}); err == nil || !strings.Contains(err.Error(), "priority 101: want -100 to 100") {
		t.Errorf("error %v", err)
	}
	_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Name: "a", Key: "k"}})
	if rule, ok := errors.AsType[*leaseapi.RuleError](err); !ok || rule.Part != leaseapi.ParamName || rule.Other != leaseapi.ParamKey {
		t.Errorf("error %v", err)
	}
}
