package proxyclient

import (
	"errors"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

func TestRenewLost(t *testing.T) {
	bubble(t, "lost without saying which", func(t *testing.T) {
		c, _ := serve(t, nil, problemFault(410, leaseapi.ProblemLost))
		_, err := c.Renew(t.Context(), leases, 0)
		want(t, err, ErrLost)
		if l, _ := errors.AsType[*LostError](err); len(l.Lost) != 1 || l.Lost[0].Lease != leases[0] {
			t.Errorf("lost %+v", l)
		}
	})
}
