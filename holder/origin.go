package holder

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// origin says which proxy and store a recorded lease or request is from, as far as that is
// known.
type origin struct {
	proxy   string // its name
	store   string
	request string // instead of the store, until the proxy has granted a lease
}

// originOf returns the origin of an owed lease or request.
func originOf(o lockfile.Owed) origin {
	from := origin{proxy: o.Proxy, store: o.Store}
	if len(o.Leases) == 0 {
		from.request = o.RequestID
	}
	return from
}

// isOf tells whether a proxy at another address than the recorded one has the same store: its
// store has the same id, or it knows the request. If the proxy cannot say, the answer is yes.
func (from origin) isOf(ctx context.Context, client *proxyclient.Client) (bool, error) {
	switch {
	case from.request != "":
		_, err := client.RequestState(ctx, from.request)
		if errors.Is(err, proxyclient.ErrUnknownRequest) {
			return false, nil
		}
		if errors.Is(err, errors.ErrUnsupported) {
			return true, nil
		}
		return true, err
	case isStoreID(from.store):
		if client.Store() == "" {
			if _, err := client.Capabilities(ctx); err != nil {
				return false, err
			}
		}
		asked := client.Store()
		return asked == "" || asked == from.store, nil
	}
	return true, nil
}

// provenBy tells whether a proxy for which isOf said yes has proven to have the same store.
func (from origin) provenBy(client *proxyclient.Client) bool {
	store := client.Store()
	return store != "" && (from.request != "" || from.store == store)
}

// otherStoreError says that a lease or request is not of the proxy that was asked.
type otherStoreError struct {
	from  origin
	proxy string // its name
}

func (e otherStoreError) Error() string {
	what, why, next := "lease", "has another store", ": name its proxy with --proxy"
	if e.from.request != "" {
		what, why = "request", "does not know it"
	}
	if e.from.proxy != "" {
		next = ", but of " + e.from.proxy + ": leave --proxy out"
	}
	return fmt.Sprintf("the %s is not of %s, which %s%s", what, e.proxy, why, next)
}

// isStoreID tells whether store is an id that a proxy told, and not an address.
func isStoreID(store string) bool { return store != "" && !strings.Contains(store, "://") }
