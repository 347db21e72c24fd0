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
		{Request{Priority: -7}, "a priority", "priority=-7"},
		{Request{Key: "k", KeyMode: leaseapi.KeyRead}, "a key that is read", "key=k&key_mode=read"},
		{Request{Name: "a"}, "a lease of a certain name", "name=a"},
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
	if _, err := c.Acquire(t.Context(), Request{Type: "t", Priority: 101}); err == nil || !strings.Contains(err.Error(), "priority 101: want -100 to 100") {
		t.Errorf("error %v", err)
	}
	for _, r := range []Request{{Name: "a", Key: "k"}, {Name: "a", Count: 2}, {Name: "a", Items: new(1)}, {Name: "a", Overcommit: true}} {
		r.Type = "t"
		if _, err := c.Acquire(t.Context(), r); err == nil || !strings.Contains(err.Error(), "a request for a name is for one lease") {
			t.Errorf("%+v: error %v", r, err)
		}
	}
	for _, r := range []Request{{KeyMode: leaseapi.KeyRead}, {Key: "k", KeyMode: leaseapi.KeyRead, Coalesce: leaseapi.CoalesceJoin, Variant: "v"}} {
		r.Type = "t"
		if _, err := c.Acquire(t.Context(), r); err == nil || !strings.Contains(err.Error(), "a key is there to read, without coalesce") {
			t.Errorf("%+v: error %v", r, err)
		}
	}
}
