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
	Count     int           // leases, granted all or none; of a counted pool: units of one lease; zero: unset
	Items     *int          // instead of Count: the pool's cost turns items into units; nil: unset
	Key       string        // two leases of a pool never have the same key; empty: no key
	Owner     string        // holder of the leases; may be empty
	RequestID string        // empty: Acquire makes a random one
	TTL       time.Duration // requested TTL; zero: the default of the pool
	Wait      time.Duration // how long to queue; zero: take what is free, or fail
	// Tried says that the request was made before with the same id and no Wait. It must
	// be the same request to the proxy, and Wait is only the time for its answer.
	Tried bool
	// Coalesce is how the request merges with others of its Key, such as
	// [leaseapi.CoalesceJoin]; empty: it does not merge. Variant identifies what its run
	// does.
	Coalesce, Variant string
	// Overcommit asks for the lease although the pool is full or paused.
	Overcommit bool
	// Priority is how many steps the request goes ahead in the queue: see [leaseapi.CheckPriority].
	Priority int
	// Replaces are leases of Owner that end when the proxy takes the request into its queue. A
	// request that is refused ends none. Not every proxy can do that: see
	// [Client.CanSwap].
	Replaces []leaseapi.Lease

	// OnQueued is called whenever the proxy reports the request's place in the
	// queue, OnRetry before a failed attempt is repeated. OnTrouble is called
	// with the last failure and the time since which there was no good answer,
	// and with a nil error when there is a good answer again. All may be nil. No two
	// are called at the same time, and Acquire waits for them.
	OnQueued  func(leaseapi.Queued)
	OnRetry   func(error)
	OnTrouble func(err error, since time.Time)
	// OnTaken is called once the proxy may have taken the request into its queue, and so may have
	// ended the leases of Replaces: unless it refuses the request, or is not reached at all.
	OnTaken func()
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
	return errors.Join(leaseapi.CheckType(r.Type), leaseapi.CheckOwner(r.Owner), leaseapi.CheckRequestID(r.RequestID), key, items, leaseapi.CheckPriority(r.Priority))
}

// count returns how many leases to ask for from a proxy that knows no units.
func (r *Request) count() int { return max(r.Count, 1) }

// needs returns the least wire on which the whole request is known, and names a part of the
// request that needs it; zero: any wire.
func (r *Request) needs() (wire int, what string) {
	switch {
	case len(r.Replaces) > 0:
		return wireSwaps, "a lease in the place of another"
	case r.Priority != 0:
		return wireSwaps, "a priority"
	case r.Key != "":
		return wireUnits, "a key"
	case r.Items != nil:
		return wireUnits, "a number of items"
	case r.Overcommit:
		return wireUnits, "overcommit"
	}
	return 0, ""
}

// saysWire reports whether the request states the wire that it relies on: its count means
// units, or it wants the reason of a refusal. Older proxies ignore the statement. With it
// a count of one means one unit, so a count that is unset is not sent.
func (r *Request) saysWire() bool {
	wire, _ := r.needs()
	return wire > 0 || r.Count > 0 || r.Wait == 0 || r.Tried
}

// addUnits adds the parameters of wire 3 and later.
func (r *Request) addUnits(v url.Values) {
	if r.saysWire() {
		v.Set(leaseapi.ParamWire, strconv.Itoa(wireUnits))
	}
	if len(r.Replaces) > 0 {
		v.Set(leaseapi.ParamReplaces, leaseapi.FormatReplaces(r.Replaces))
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
	if r.Priority != 0 {
		v.Set(leaseapi.ParamPriority, strconv.Itoa(r.Priority))
	}
	if r.Overcommit {
		v.Set(leaseapi.ParamOvercommit, strconv.FormatBool(true))
	}
}
