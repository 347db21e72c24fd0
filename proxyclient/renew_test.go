package proxyclient

import (
	"errors"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

func TestRenew(t *testing.T) {
	for _, f := range []struct {
		name string
		f    fault
		ok   bool
	}{
		{"none", fault{}, true}, {"refused", dialRefused, true}, {"lost", lostRequest, true}, {"answer lost", lostAnswer, true},
		{"half", halfAnAnswer, true}, {"502", badGateway, true}, {"429", status(429), true}, {"hanging", hanging, true},
		{"something else's 404", fault{status: 404, body: "<html>"}, true},
		{"400", status(400), false}, {"403", status(403), false}, {"garbage", garbage, false}, {"HTML page", htmlPage, false},
		{"no time", fault{status: 200, body: `{"ttl":"0s"}`}, false}, {"redirect", status(308), false},
	} {
		bubble(t, f.name, func(t *testing.T) {
			c, _ := serve(t, newOurs(t), f.f)
			r, err := c.Renew(releaseTimeout(t), leases, time.Minute)
			if (err == nil) != f.ok || err == nil && r.TTL != 5*time.Minute {
				t.Errorf("got %+v, %v", r, err)
			}
			if errors.Is(err, ErrLost) {
				t.Errorf("nobody said that it is lost: %v", err)
			}
		})
	}
	bubble(t, "lost without saying which", func(t *testing.T) {
		c, _ := serve(t, nil, problemFault(410, leaseapi.ProblemLost))
		_, err := c.Renew(t.Context(), leases, 0)
		want(t, err, ErrLost)
		if l, _ := errors.AsType[*LostError](err); len(l.Lost) != 1 || l.Lost[0].Lease != leases[0] {
			t.Errorf("lost %+v", l)
		}
	})
}
