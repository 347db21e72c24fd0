// Package holdertest has what the tests of holder, and of the packages above it, need: a lease proxy that
// can be made to fail, and a reporter that remembers.
package holdertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

// Proxy is a lease proxy of ours that a test can make fail. It grants every request, and
// remembers the calls.
type Proxy struct {
	*httptest.Server
	grantTTL   time.Duration
	RenewEvery time.Duration
	Caller     leaseapi.Caller // of every call; zero: it asks for no tokens

	// OnAcquire, OnRelease and OnRenew answer instead of the proxy if they
	// return true.
	OnAcquire, OnRelease, OnRenew func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	acquires int
	renewals int
	Releases []leaseapi.ReleaseRequest
}

// NewProxy starts a Proxy, for as long as the test runs.
func NewProxy(t *testing.T) *Proxy {
	p := &Proxy{grantTTL: 5 * time.Minute, RenewEvery: 100 * time.Second}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+leaseapi.PathAcquire, p.acquire)
	mux.HandleFunc("POST "+leaseapi.PathRelease, p.release)
	mux.HandleFunc("POST "+leaseapi.PathRenew, p.renew)
	mux.HandleFunc("POST "+leaseapi.PathResize, resize)
	mux.HandleFunc("POST "+leaseapi.PathReport, func(w http.ResponseWriter, _ *http.Request) {
		Reply(w, http.StatusOK, leaseapi.ReportReply{Counts: true})
	})
	mux.HandleFunc("GET "+leaseapi.PathWhoami, func(w http.ResponseWriter, _ *http.Request) {
		Reply(w, http.StatusOK, leaseapi.WhoamiReply{Name: p.Caller.Name, Open: p.Caller == leaseapi.Caller{}})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Server.Close)
	return p
}

func (p *Proxy) acquire(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.acquires++
	generation := uint64(p.acquires)
	p.mu.Unlock()
	if p.OnAcquire != nil && p.OnAcquire(w, r) {
		return
	}
	name := fmt.Sprint("lease", generation)
	Reply(w, http.StatusOK, leaseapi.AcquireReply{
		Names: []string{name}, Leases: []leaseapi.Lease{{Name: name, Generation: generation}},
		RequestID: wiretest.Asked(r).RequestID,
		TTL:       leaseapi.Duration(p.grantTTL), RenewEvery: leaseapi.Duration(p.RenewEvery),
	})
}

func (p *Proxy) release(w http.ResponseWriter, r *http.Request) {
	var request leaseapi.ReleaseRequest
	json.NewDecoder(r.Body).Decode(&request)
	p.mu.Lock()
	p.Releases = append(p.Releases, request)
	onRelease := p.OnRelease
	p.mu.Unlock()
	if onRelease != nil && onRelease(w, r) {
		return
	}
	released := append([]string{}, request.Names...) // not null, by which clients know our server
	for _, l := range request.Leases {
		released = append(released, l.Name)
	}
	Reply(w, http.StatusOK, leaseapi.ReleaseReply{Released: released})
}

func (p *Proxy) renew(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.renewals++
	p.mu.Unlock()
	if p.OnRenew != nil && p.OnRenew(w, r) {
		return
	}
	Reply(w, http.StatusOK, leaseapi.RenewReply{TTL: leaseapi.Duration(p.grantTTL), RenewEvery: leaseapi.Duration(p.RenewEvery)})
}

// resize grants each size.
func resize(w http.ResponseWriter, r *http.Request) {
	var request leaseapi.ResizeRequest
	json.NewDecoder(r.Body).Decode(&request)
	Reply(w, http.StatusOK, leaseapi.ResizeReply{Units: request.Count})
}

func Reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// Lost answers a renewal: lease1 is lost.
func Lost(w http.ResponseWriter, _ *http.Request) bool {
	return LostBecause(w, leaseapi.ReasonReleased)
}

// LostBecause is lost with another reason.
func LostBecause(w http.ResponseWriter, reason string) bool {
	w.Header().Set("Content-Type", leaseapi.ContentTypeProblem)
	w.WriteHeader(http.StatusGone)
	json.NewEncoder(w).Encode(leaseapi.Problem{
		Type: leaseapi.ProblemLost, Status: http.StatusGone,
		Lost: []leaseapi.Lost{{Lease: leaseapi.Lease{Name: "lease1", Generation: 1}, Reason: reason}},
	})
	return true
}

// EndedUnseen answers an acquire: its grant has ended, since nobody confirmed it.
func EndedUnseen(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Type", leaseapi.ContentTypeProblem)
	w.WriteHeader(http.StatusGone)
	json.NewEncoder(w).Encode(leaseapi.Problem{Type: leaseapi.ProblemEnded, Status: http.StatusGone, Reason: leaseapi.ReasonUnconfirmed})
	return true
}

// Fails answers with an error that a client tries again.
func Fails(w http.ResponseWriter, _ *http.Request) bool {
	http.Error(w, "no store", http.StatusInternalServerError)
	return true
}

// Mend removes onRelease. It takes the lock, since a release that nobody waits for may still be
// on its way.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.OnRelease = nil
}

// Released returns the names that the proxy was told to release by generation.
func (p *Proxy) Released() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.Releases {
		for _, l := range r.Leases {
			names = append(names, l.Name)
		}
	}
	return names
}

// Asked returns how often the proxy was asked for a lease.
func (p *Proxy) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acquires
}

// Renewed returns how often a lease was renewed.
func (p *Proxy) Renewed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewals
}

// Lines are what a reporter has told the user.
type Lines struct {
	mu  sync.Mutex
	all []string
}

func (r *Lines) Failf(format string, args ...any)  { r.add(format, args...) }
func (r *Lines) Notef(format string, args ...any)  { r.add(format, args...) }
func (r *Lines) Debugf(format string, args ...any) { r.add(format, args...) }

func (r *Lines) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprintf(format, args...))
}

// Said tells whether a line has text in it.
func (r *Lines) Said(text string) bool { return r.Times(text) > 0 }

// Times counts the lines that have text in them.
func (r *Lines) Times(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.all {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
