package proxyclient

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

// swapping is a server that answers each acquire with a lease of the next generation.
type swapping struct {
	acquires []string // replaces of each
	releases []leaseapi.ReleaseRequest
	refusals int // how many releases fail first
}

func (s *swapping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(leaseapi.HeaderWire, strconv.Itoa(leaseapi.Wire))
	answer := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v)
	}
	switch r.URL.Path {
	case leaseapi.PathAcquire:
		ask := wiretest.Asked(r)
		s.acquires = append(s.acquires, fmt.Sprint(ask.Replaces))
		reply := leaseapi.AcquireReply{
			Names: []string{"a"}, Leases: []leaseapi.Lease{{Name: "a", Generation: uint64(len(s.acquires))}},
			RequestID: ask.RequestID, TTL: leaseapi.Duration(time.Minute),
		}
		if len(ask.Replaces) > 0 && ask.Replaces[0].Name == "gone" {
			reply.Stale = []leaseapi.Lost{{Lease: leaseapi.Lease{Name: "gone", Generation: 7}, Reason: "expired"}}
		}
		answer(reply)
	case leaseapi.PathRelease:
		var req leaseapi.ReleaseRequest
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if s.releases = append(s.releases, req); len(s.releases) <= s.refusals {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		answer(leaseapi.ReleaseReply{Released: append([]string{}, req.Names...)})
	}
}

// A request names the leases that it replaces. One answer of leasectl's own server is enough to know
// that it can do that.
func TestReplaces(t *testing.T) {
	request := Request{Ask: leaseapi.Ask{Type: "t"}, Owner: "me", Wait: time.Minute}
	bubble(t, "", func(t *testing.T) {
		s := &swapping{}
		c, _ := serve(t, s)
		g, err := c.Acquire(t.Context(), request)
		want(t, err)
		next := request
		next.Replaces = g.Leases
		again, err := c.Acquire(t.Context(), next)
		want(t, err)
		if len(s.acquires) != 2 || s.acquires[1] != fmt.Sprint(g.Leases) || again.Leases[0].Generation != 2 || len(again.Stale) > 0 {
			t.Errorf("sent %q, got %+v", s.acquires, again)
		}
		next.Replaces = []leaseapi.Lease{{Name: "gone", Generation: 7}}
		stale, err := c.Acquire(t.Context(), next)
		want(t, err)
		if len(stale.Stale) != 1 || stale.Stale[0].Reason != "expired" {
			t.Errorf("stale are %+v", stale.Stale)
		}
	})
}

// Each attempt to release names says anew how long ago they were learned.
func TestAgeOfNames(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &swapping{refusals: 3}
		c, _ := serve(t, s)
		learned := time.Now().Add(-time.Minute)
		_, err := c.ReleaseNames(releaseTimeout(t), NamesRelease{Names: []string{"a"}, Owner: "me", Learned: learned})
		want(t, err)
		if len(s.releases) != 4 {
			t.Fatalf("%d attempts", len(s.releases))
		}
		before := time.Duration(0)
		for i, r := range s.releases {
			if r.KnownFor == nil || r.Owner != "me" || time.Duration(*r.KnownFor) < time.Minute || i > 0 && time.Duration(*r.KnownFor) <= before {
				t.Errorf("attempt %d: %+v", i, r)
			}
			before = time.Duration(*r.KnownFor)
		}
		s.releases = nil
		_, err = c.ReleaseNames(releaseTimeout(t), NamesRelease{Names: []string{"a"}, Owner: "me", Learned: time.Now().Add(time.Hour)})
		want(t, err)
		if r := s.releases[len(s.releases)-1]; *r.KnownFor != 0 {
			t.Errorf("from the future: %s", time.Duration(*r.KnownFor))
		}
		s.releases, s.refusals = nil, 0
		_, err = c.ReleaseNames(releaseTimeout(t), NamesRelease{Names: []string{"a"}, Owner: "me"})
		want(t, err)
		if r := s.releases[0]; r.KnownFor != nil {
			t.Errorf("not known since when, and said: %+v", r)
		}
	})
}
