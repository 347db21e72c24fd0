package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
)

// Waiters of a server in this process are drained in their order.
func TestHosted(t *testing.T) {
	for _, name := range []string{"leasectl", "channels"} {
		var out strings.Builder
		if err := runHosted(t.Context(), name, 10*lineStep, &out); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var c crowded
		if err := json.Unmarshal([]byte(out.String()), &c); err != nil || c.Rate <= 0 || c.Disorder != 0 {
			t.Errorf("%s: %s %v", name, &out, err)
		}
	}
	if err := runHosted(t.Context(), "other", 1, nil); err == nil {
		t.Error("there is a server of another name")
	}
}

// A server begins with the leases and the waiters of a directory that was filled.
func TestFill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	config := pool.Config{Type: "many", Names: pool.Numbered("many", 7)}
	if err := fill(dir, config, 7, 5); err != nil {
		t.Fatal(err)
	}
	s, err := bolt.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	snap, err := s.Load()
	if err != nil || len(snap.Leases) != 7 || len(snap.Waiters) != 5 {
		t.Fatalf("%d leases, %d waiters, %v", len(snap.Leases), len(snap.Waiters), err)
	}
	for _, l := range snap.Leases {
		if l.Provisional || l.Generation > snap.Generation {
			t.Errorf("%+v is not held, with generation %d", l, snap.Generation)
		}
	}
	if _, err := pool.New([]pool.Config{config}, snap, pool.PriorityAging); err != nil {
		t.Error(err)
	}
	if err := fill(filepath.Join(t.TempDir(), "data"), config, 8, 0); err == nil {
		t.Error("a pool of 7 was filled with 8 leases")
	}
}
