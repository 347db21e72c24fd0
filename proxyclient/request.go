package proxyclient

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Request says what to acquire.
type Request struct {
	Type      string
	Count     int           // leases, all of them or none; of a counted pool units of one lease; zero: not said
	Items     *int          // instead of Count: the pool's cost makes units of it; nil: not said
	Key       string        // no two leases of a pool have the same; empty: none
	Owner     string        // who holds them; may be empty
	RequestID string        // made up if empty
	TTL       time.Duration // asked for; zero: the pool's own
	Wait      time.Duration // how long to queue; zero: take what is free, or fail
	// Tried says that the request was made before with the same id and no Wait. Its Wait
	// is now for an answer of the proxy, and it is sent in the same words.
	Tried bool
	// Coalesce is how the request merges with others of its Key, as of
	// [leaseapi.CoalesceJoin]; empty: it does not. Variant says what its run does.
	Coalesce, Variant string
	// Overcommit asks for the lease although the pool is full or paused.
	Overcommit bool

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
	if r.Count < 0 {
		return fmt.Errorf("the count is %d, and must not be negative", r.Count)
	}
	if r.Wait < 0 || r.TTL < 0 {
		return errors.New("wait and ttl must not be negative")
	}
	var key, items error
	if r.Key != "" {
		key = leaseapi.CheckKey(r.Key)
	}
	if r.Items != nil {
		items = leaseapi.CheckItems(*r.Items)
		if r.Count > 0 {
			items = errors.New("a request has a count or items, not both")
		}
	}
	if r.Coalesce != "" {
		key = cmp.Or(key, leaseapi.CheckKey(r.Key), leaseapi.CheckVariant(r.Variant))
	}
	return errors.Join(leaseapi.CheckType(r.Type), leaseapi.CheckOwner(r.Owner), leaseapi.CheckRequestID(r.RequestID), key, items)
}

// count is how many leases a proxy grants that knows no units.
func (r *Request) count() int { return max(r.Count, 1) }

// needsUnits is the first part of the request that only a proxy with
// [Capabilities.Units] knows; "" if there is none.
func (r *Request) needsUnits() string {
	switch {
	case r.Key != "":
		return "a key"
	case r.Items != nil:
		return "a number of items"
	case r.Overcommit:
		return "overcommit"
	}
	return ""
}

// saysWire tells whether the request says which wire it relies on: it means units
// by its count, or wants to be told why it is refused. Older proxies ignore that.
// With it a count of one is one unit, so what was not said is not sent.
func (r *Request) saysWire() bool {
	return r.needsUnits() != "" || r.Count > 0 || r.Wait == 0 || r.Tried
}

// addUnits adds the parameters of wire 3.
func (r *Request) addUnits(v url.Values) {
	if r.saysWire() {
		v.Set(leaseapi.ParamWire, strconv.Itoa(wireUnits))
	}
	if r.Key != "" {
		v.Set(leaseapi.ParamKey, r.Key)
	}
	if r.Items != nil {
		v.Set(leaseapi.ParamItems, strconv.Itoa(*r.Items))
	}
	if r.Coalesce != "" {
		v.Set(leaseapi.ParamCoalesce, r.Coalesce)
		v.Set(leaseapi.ParamVariant, r.Variant)
	}
	if r.Overcommit {
		v.Set(leaseapi.ParamOvercommit, strconv.FormatBool(true))
	}
}
