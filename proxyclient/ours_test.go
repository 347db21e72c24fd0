package proxyclient

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

// ours is a small server of our own kind, with one pool of type "t".
type ours struct {
	t   *testing.T
	ttl time.Duration

	mu       sync.Mutex
	free     []string
	next     uint64
	grants   map[string][]leaseapi.Lease // by request id
	granted  map[string]int              // how often, by request id
	ended    map[string]bool
	queue    []*waiter
	acquires []leaseapi.AcquireRequest
	renews   int
	released []leaseapi.ReleaseRequest
	lost     []leaseapi.Lost // what a renewal answers
	release  time.Time       // ReleaseAt of a renewal's answer
	text     string          // what any acquire fails with
	units    int             // units of each lease of a counted pool; zero: the pool is a listed one
	healths  int             // how often it was asked for its health
	resizes  int             // how many resizes of its lease were decided
}

type waiter struct {
	id    string
	count int
	there int // connections
	wake  chan struct{}
}

func newOurs(t *testing.T, names ...string) *ours {
	return &ours{
		t: t, ttl: 5 * time.Minute, free: names, next: 1000,
		grants: map[string][]leaseapi.Lease{}, granted: map[string]int{}, ended: map[string]bool{},
	}
}

func (s *ours) state() (held, queued int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.grants {
		held += len(l)
	}
	return held, len(s.queue)
}

func (s *ours) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == leaseapi.PathAcquire && r.Method == http.MethodPost:
		s.acquire(w, r)
	case path == leaseapi.PathRelease && r.Method == http.MethodPost:
		s.give(w, r)
	case path == leaseapi.PathRenew && r.Method == http.MethodPost:
		s.renew(w)
	case path == leaseapi.PathResize && r.Method == http.MethodPost:
		s.resize(w, r)
	case strings.HasPrefix(path, leaseapi.PathRequests) && r.Method == http.MethodGet:
		s.request(w, strings.TrimPrefix(path, leaseapi.PathRequests))
	case path == leaseapi.PathHealth:
		s.mu.Lock()
		s.healths++
		s.mu.Unlock()
		answerJSON(w, 200, leaseapi.Health{Status: "ok", Wire: leaseapi.Wire, Version: "test"})
	case path == leaseapi.PathPools:
		owner := "job\x1b[2J"
		answerJSON(w, 200, leaseapi.PoolsReply{Pools: []leaseapi.Pool{{Type: "t", Capacity: 2,
			Leases: []leaseapi.PoolLease{{Lease: leaseapi.Lease{Name: "a", Generation: 1}, Owner: owner, Broken: owner}}}}})
	default:
		problem(w, 404, leaseapi.Problem{Type: leaseapi.ProblemNotFound, Title: "no such path"})
	}
}

func answerJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(v)
}

func problem(w http.ResponseWriter, code int, p leaseapi.Problem) {
	w.Header().Set("Content-Type", leaseapi.ContentTypeProblem)
	w.WriteHeader(code)
	p.Status = code
	json.NewEncoder(w).Encode(p)
}

func (s *ours) acquire(w http.ResponseWriter, r *http.Request) {
	q := wiretest.Asked(r)
	s.mu.Lock()
	s.acquires = append(s.acquires, q)
	s.mu.Unlock()
	id, count := q.RequestID, max(q.Count, 1)
	if s.units > 0 {
		count = 1
	}
	switch {
	case leaseapi.CheckAcquire(&q) != nil || id == "" || q.Wait == nil:
		s.t.Errorf("bad request %+v", q)
		return
	case s.text != "":
		http.Error(w, s.text, 500)
		return
	case q.Type != "t":
		http.Error(w, fmt.Sprintf("Failed to acquire lease %q: resource type not found", q.Type), 404)
		return
	}
	wait := time.Duration(*q.Wait)
	known := s.waits(id)
	mine := s.enter(id, count)
	length := leaseapi.SliceTime
	if !known {
		length = leaseapi.FirstSlice
	}
	slice := time.After(length)
	over := time.After(wait)
	select {
	case <-mine.wake:
	case <-slice:
	case <-over:
	case <-r.Context().Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	mine.there--
	leases, ok := s.grants[id]
	switch {
	case s.ended[id]:
		problem(w, 410, leaseapi.Problem{Type: leaseapi.ProblemEnded, Title: "ended"})
	case ok:
		reply := leaseapi.AcquireReply{RequestID: id, Leases: slices.Clone(leases),
			TTL: leaseapi.Duration(s.ttl), RenewEvery: leaseapi.Duration(s.ttl / 3)}
		for i := range leases {
			reply.Leases[i].Units = s.units
		}
		for _, l := range leases {
			reply.Names = append(reply.Names, l.Name)
		}
		answerJSON(w, 200, reply)
	case r.Context().Err() != nil:
	case wait <= length:
		s.leave(id)
		http.Error(w, `Failed to acquire lease "t": resources not found: resource not found within `+wait.String(), 500)
	default:
		place := slices.Index(s.queue, mine) + 1
		answerJSON(w, 202, leaseapi.Queued{RequestID: id, Place: place, Length: len(s.queue), InUse: 2, Capacity: 2,
			Oldest: &leaseapi.PoolLease{Owner: "job\x1b[2J"}})
	}
}

// waits reports whether a request waits, and so has been told its place.
func (s *ours) waits(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.queue, func(w *waiter) bool { return w.id == id })
}

func (s *ours) enter(id string, count int) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.queue, func(w *waiter) bool { return w.id == id })
	var w *waiter
	switch {
	case s.ended[id] || s.grants[id] != nil:
		w = &waiter{wake: make(chan struct{})}
		close(w.wake)
	case i >= 0:
		w = s.queue[i]
	default:
		w = &waiter{id: id, count: count, wake: make(chan struct{})}
		s.queue = append(s.queue, w)
	}
	w.there++
	s.pump()
	return w
}

// freeAfter gives the pool names after d.
func (s *ours) freeAfter(d time.Duration, names ...string) {
	time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free = append(s.free, names...)
		s.pump()
	})
}

func (s *ours) leave(id string) {
	s.queue = slices.DeleteFunc(s.queue, func(w *waiter) bool { return w.id == id })
}

func (s *ours) pump() {
	for i := 0; i < len(s.queue); {
		w := s.queue[i]
		if w.there == 0 {
			i++
			continue
		}
		if len(s.free) < w.count {
			return
		}
		for _, n := range s.free[:w.count] {
			s.next++
			s.grants[w.id] = append(s.grants[w.id], leaseapi.Lease{Name: n, Generation: s.next})
		}
		s.free = s.free[w.count:]
		s.granted[w.id]++
		s.queue = slices.Delete(s.queue, i, i+1)
		close(w.wake)
	}
}

func (s *ours) end(id string) {
	for _, l := range s.grants[id] {
		s.free = append(s.free, l.Name)
	}
	delete(s.grants, id)
	s.ended[id] = true
}

func (s *ours) give(w http.ResponseWriter, r *http.Request) {
	var req leaseapi.ReleaseRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		problem(w, 400, leaseapi.Problem{Type: leaseapi.ProblemBadRequest, Detail: err.Error()})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = append(s.released, req)
	reply := leaseapi.ReleaseReply{Released: []string{}}
	for _, id := range req.RequestIDs {
		for _, l := range s.grants[id] {
			reply.Released = append(reply.Released, l.Name)
		}
		for _, q := range s.queue {
			if q.id == id {
				close(q.wake)
			}
		}
		s.leave(id)
		s.end(id)
	}
	for _, l := range req.Leases {
		found := false
		for id, held := range s.grants {
			if slices.Contains(held, l) {
				found = true
				s.end(id)
			}
		}
		if found {
			reply.Released = append(reply.Released, l.Name)
		} else {
			reply.Stale = append(reply.Stale, leaseapi.Lost{Lease: l, Reason: leaseapi.ReasonOther})
		}
	}
	reply.Released = append(reply.Released, req.Names...)
	s.pump()
	answerJSON(w, 200, reply)
}

func (s *ours) renew(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renews++
	if len(s.lost) > 0 {
		problem(w, 410, leaseapi.Problem{Type: leaseapi.ProblemLost, Lost: s.lost})
		return
	}
	answerJSON(w, 200, leaseapi.RenewReply{TTL: leaseapi.Duration(s.ttl), RenewEvery: leaseapi.Duration(s.ttl / 3),
		ReleaseAt: s.release})
}

// resize makes its lease hold another number of units. There is always room.
func (s *ours) resize(w http.ResponseWriter, r *http.Request) {
	var req leaseapi.ResizeRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if *req.After == s.resizes {
		s.units, s.resizes = req.Count, s.resizes+1
	} else if *req.After != s.resizes-1 || req.Count != s.units {
		problem(w, http.StatusConflict, leaseapi.Problem{Type: leaseapi.ProblemStale, Held: s.units, Resizes: s.resizes})
		return
	}
	answerJSON(w, http.StatusOK, leaseapi.ResizeReply{Units: s.units, Resizes: s.resizes})
}

func (s *ours) request(w http.ResponseWriter, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queued := slices.ContainsFunc(s.queue, func(q *waiter) bool { return q.id == id })
	switch {
	case s.grants[id] != nil:
		answerJSON(w, 200, leaseapi.RequestReply{RequestID: id, State: leaseapi.StateGranted, Leases: s.grants[id]})
	case queued:
		answerJSON(w, 200, leaseapi.RequestReply{RequestID: id, State: leaseapi.StateQueued, Place: 1})
	case s.ended[id]:
		answerJSON(w, 200, leaseapi.RequestReply{RequestID: id, State: leaseapi.StateEnded})
	default:
		problem(w, 404, leaseapi.Problem{Type: leaseapi.ProblemUnknownRequest, Title: "unknown request"})
	}
}
