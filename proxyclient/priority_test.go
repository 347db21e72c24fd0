package proxyclient

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// A priority is sent only to a proxy that is known to heed it.
func TestPriority(t *testing.T) {
	request := Request{Type: "t", RequestID: "R", Wait: time.Minute, Priority: -7}
	for name, wire := range map[string]int{"wire 2": 2, "wire 3": 3, "wire 4": 0} {
		bubble(t, name, func(t *testing.T) {
			proxy := newOurs(t, "a")
			proxy.wire = wire
			h := &recording{Handler: proxy}
			c, _ := serve(t, h)
			_, err := c.Acquire(t.Context(), request)
			sent := strings.Contains(strings.Join(h.seen, "\n"), leaseapi.PathAcquire)
			if wire > 0 {
				older, ok := errors.AsType[*OlderError](err)
				if !ok || older.Needs != "a priority" || sent {
					t.Errorf("error %v; seen %q", err, h.seen)
				}
				return
			}
			want(t, err)
			if !strings.Contains(strings.Join(h.seen, "\n"), "?priority=-7&") {
				t.Errorf("seen %q", h.seen)
			}
		})
	}
	c, _ := serve(t, newOurs(t, "a"))
	if _, err := c.Acquire(t.Context(), Request{Type: "t", Priority: 101}); err == nil || !strings.Contains(err.Error(), "priority 101: want -100 to 100") {
		t.Errorf("error %v", err)
	}
}
