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
	// request is, OnRetry before a failed attempt is made again. Both may be
	// nil; they are called by Acquire itself, which waits for them.
	OnQueued func(leaseapi.Queued)
	OnRetry  func(error)
}

// Grant is what an acquire got.
type Grant struct {
	RequestID  string
	Leases     []leaseapi.Lease // with generation 0 from a version-1 proxy
	TTL        time.Duration    // from the first renewal on; zero: until released
	RenewEvery time.Duration    // zero: needs no renewal
	Asked      Instant          // when the request that was answered began
	Version1   bool             // the proxy is of version 1: no TTL, no renewal
}

// Deadline returns when the grant ends at the earliest unless it is renewed
// before; the zero Instant if it does not end by itself. Asked counts, not the
// answer: the lease may be as old as that.
func (g *Grant) Deadline() Instant {
	if g.Version1 {
		return Instant{}
	}
	return g.Asked.Add(min(leaseapi.ProvisionalTTL, g.TTL))
}

func (r *Request) check() error {
	switch {
	case r.Type == "" || len(r.Type) > leaseapi.MaxName:
		return fmt.Errorf("the type must have 1 to %d bytes", leaseapi.MaxName)
	case r.Count < 1:
		return fmt.Errorf("the count is %d, and must be at least 1", r.Count)
	case r.Wait < 0 || r.TTL < 0:
		return errors.New("wait and ttl must not be negative")
	case len(r.Owner) > leaseapi.MaxOwner:
		return fmt.Errorf("the owner has %d bytes; at most %d are allowed", len(r.Owner), leaseapi.MaxOwner)
	}
	return checkRequestID(r.RequestID)
}

// checkRequestID allows the characters that stand for themselves in any part
// of a URL (RFC 3986, section 2.3), and no "." or ".." of a path.
func checkRequestID(id string) error {
	ok := len(id) > 0 && len(id) <= leaseapi.MaxRequestID && id[0] != '.'
	for _, r := range id {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			r == '-' || r == '_' || r == '.' || r == '~')
	}
	if !ok {
		return fmt.Errorf("a request id must have 1 to %d letters, digits or -_~. and not begin with a dot", leaseapi.MaxRequestID)
	}
	return nil
}
