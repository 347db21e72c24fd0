package proxyclient

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Request says what to acquire.
type Request struct {
	Type      string
	Count     int           // leases, all of them or none; at least 1
	Owner     string        // who holds them; may be empty
	RequestID string        // made up if empty
	TTL       time.Duration // asked for; zero: the pool's own
	Wait      time.Duration // how long to queue; zero: take what is free, or fail

	// OnQueued is called whenever the proxy said where in the queue the
	// request is, OnRetry before a failed attempt is made again. OnTrouble is
	// called with the last failure and the time since when there was no good
	// answer, and with nil when there is one again. All may be nil; no two are
	// called at the same time, and Acquire waits for them.
	OnQueued  func(leaseapi.Queued)
	OnRetry   func(error)
	OnTrouble func(err error, since time.Time)
}

func (r *Request) check() error {
	if r.Count < 1 {
		return fmt.Errorf("the count is %d, and must be at least 1", r.Count)
	}
	if r.Wait < 0 || r.TTL < 0 {
		return errors.New("wait and ttl must not be negative")
	}
	return join(leaseapi.CheckType(r.Type), leaseapi.CheckOwner(r.Owner), leaseapi.CheckRequestID(r.RequestID))
}
