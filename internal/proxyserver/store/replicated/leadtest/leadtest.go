// Package leadtest gains leads and commits small changes, for tests of packages that have a
// [store.Election]. Functions that take a test end it with Fatal if they fail, so only the test's
// own goroutine may call them.
package leadtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// Gain makes e lead until the end of t or until the lead is closed. It fails t if e does not lead
// within limit.
func Gain(t testing.TB, e store.Election, limit time.Duration) store.Lead {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	l, err := e.Gain(ctx)
	if err != nil {
		t.Fatalf("gain: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Load returns what is in the store of l.
func Load(t testing.TB, l store.Lead) pool.Snapshot {
	t.Helper()
	snap, err := l.Load()
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return snap
}

// Held loads the store of l, and returns the names that are leased, sorted, with spaces between.
func Held(t testing.TB, l store.Lead) string {
	t.Helper()
	var names []string
	for _, lease := range Load(t, l).Leases {
		names = append(names, lease.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// Granted is the grant of a name of type q for an hour, to a request whose id is the name.
func Granted(name string, generation uint64) pool.Change {
	return pool.Change{Kind: pool.Granted, Leases: []pool.Lease{{
		Name: name, Type: "q", Generation: generation, Ask: pool.Ask{Count: 1}, TTL: time.Hour, RequestID: name,
	}}}
}

// Done is the end of the lease of a name.
func Done(name string) pool.Change {
	return pool.Change{Kind: pool.Done, Lease: pool.Lease{Name: name}}
}

// Commit commits changes to the store of l. A test of a commit that fails calls l.Commit.
func Commit(t testing.TB, l store.Lead, changes ...pool.Change) {
	t.Helper()
	if err := l.Commit(store.Batch{Changes: changes, Clock: 1, Generation: 1}); err != nil {
		t.Fatalf("commit: %v", err)
	}
}
