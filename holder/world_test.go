package holder

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/holder/dial"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// proxy is a lease proxy of ours that a test can make fail. It grants every request, and
// remembers the calls.
type proxy struct {
	*httptest.Server
	grantTTL   time.Duration
	renewEvery time.Duration

	// onAcquire, onRelease and onRenew answer instead of the proxy if they
	// return true.
	onAcquire, onRelease, onRenew func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	acquires int
	renewals int
	releases []leaseapi.ReleaseRequest
}

func newProxy(t *testing.T) *proxy {
	p := &proxy{grantTTL: 5 * time.Minute, renewEvery: 100 * time.Second}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+leaseapi.PathAcquire, p.acquire)
	mux.HandleFunc("POST "+leaseapi.PathRelease, p.release)
	mux.HandleFunc("POST "+leaseapi.PathRenew, p.renew)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Server.Close)
	return p
}

func (p *proxy) acquire(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.acquires++
	generation := uint64(p.acquires)
	p.mu.Unlock()
	if p.onAcquire != nil && p.onAcquire(w, r) {
		return
	}
	name := fmt.Sprint("lease", generation)
	reply(w, http.StatusOK, leaseapi.AcquireReply{
		Names: []string{name}, Leases: []leaseapi.Lease{{Name: name, Generation: generation}},
		RequestID: r.FormValue("request_id"),
		TTL:       leaseapi.Duration(p.grantTTL), RenewEvery: leaseapi.Duration(p.renewEvery),
	})
}

func (p *proxy) release(w http.ResponseWriter, r *http.Request) {
	var request leaseapi.ReleaseRequest
	json.NewDecoder(r.Body).Decode(&request)
	p.mu.Lock()
	p.releases = append(p.releases, request)
	onRelease := p.onRelease
	p.mu.Unlock()
	if onRelease != nil && onRelease(w, r) {
		return
	}
	released := append([]string{}, request.Names...) // not null, by which clients know our server
	for _, l := range request.Leases {
		released = append(released, l.Name)
	}
	reply(w, http.StatusOK, leaseapi.ReleaseReply{Released: released})
}

func (p *proxy) renew(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.renewals++
	p.mu.Unlock()
	if p.onRenew != nil && p.onRenew(w, r) {
		return
	}
	reply(w, http.StatusOK, leaseapi.RenewReply{TTL: leaseapi.Duration(p.grantTTL), RenewEvery: leaseapi.Duration(p.renewEvery)})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// lost answers a renewal: lease1 is lost.
func lost(w http.ResponseWriter, _ *http.Request) bool {
	return lostBecause(w, leaseapi.ReasonReleased)
}

// lostBecause is lost with another reason.
func lostBecause(w http.ResponseWriter, reason string) bool {
	w.Header().Set("Content-Type", leaseapi.ContentTypeProblem)
	w.WriteHeader(http.StatusGone)
	json.NewEncoder(w).Encode(leaseapi.Problem{
		Type: leaseapi.ProblemLost, Status: http.StatusGone,
		Lost: []leaseapi.Lost{{Lease: leaseapi.Lease{Name: "lease1", Generation: 1}, Reason: reason}},
	})
	return true
}

// endedUnseen answers an acquire: its grant has ended, since nobody confirmed it.
func endedUnseen(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Type", leaseapi.ContentTypeProblem)
	w.WriteHeader(http.StatusGone)
	json.NewEncoder(w).Encode(leaseapi.Problem{Type: leaseapi.ProblemEnded, Status: http.StatusGone, Reason: leaseapi.ReasonUnconfirmed})
	return true
}

// fails answers with an error that a client tries again.
func fails(w http.ResponseWriter, _ *http.Request) bool {
	http.Error(w, "no store", http.StatusInternalServerError)
	return true
}

// mend removes onRelease. It takes the lock, since a release that nobody waits for may still be
// on its way.
func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onRelease = nil
}

// released returns the names that the proxy was told to release by generation.
func (p *proxy) released() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.releases {
		for _, l := range r.Leases {
			names = append(names, l.Name)
		}
	}
	return names
}

// asked returns how often the proxy was asked for a lease.
func (p *proxy) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acquires
}

func (p *proxy) renewed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewals
}

// world is a holder with a state directory and a proxy.
type world struct {
	*Holder
	t      *testing.T
	proxy  *proxy
	dir    string
	report *report
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := lockfile.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, proxy: newProxy(t), dir: dir, report: new(report)}
	w.Holder = w.otherProcess()
	return w
}

// otherProcess returns the holder of another process of the job.
func (w *world) otherProcess() *Holder {
	listening := make(chan struct{})
	close(listening)
	return w.processThat(listening)
}

// processThat is otherProcess, but it handles signals only once listening is closed.
func (w *world) processThat(listening <-chan struct{}) *Holder {
	h := New(Options{
		StateDir: w.dir, Owner: "job-1", Report: w.report, Listening: listening,
		Proxy: dial.Options{URL: w.proxy.URL, Version: "test"},
	})
	w.t.Cleanup(h.Close)
	return h
}

// report is a [Reporter] that remembers its lines.
type report struct {
	mu    sync.Mutex
	lines []string
}

func (r *report) Failf(format string, args ...any)  { r.add(format, args...) }
func (r *report) Notef(format string, args ...any)  { r.add(format, args...) }
func (r *report) Debugf(format string, args ...any) { r.add(format, args...) }
func (r *report) Waiting(*Wait) (stop func())       { return func() {} }

func (r *report) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// said tells whether a line has text in it.
func (r *report) said(text string) bool { return r.times(text) > 0 }

// times counts the lines that have text in them.
func (r *report) times(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// handle opens a handle that others may know.
func (w *world) handle(name string) lockfile.Handle {
	w.t.Helper()
	h, err := OpenHandle(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// write writes a record into a handle, as another process does; the zero Record removes it.
func (w *world) write(h lockfile.Handle, r lockfile.Record) {
	w.t.Helper()
	if err := h.Update(w.t.Context(), func(tx *lockfile.Tx) error { tx.Record = r; return nil }); err != nil {
		w.t.Error(err)
	}
}

// record returns the record of a handle; the zero Record if the handle is gone.
func (w *world) record(h lockfile.Handle) lockfile.Record {
	r, _ := h.Read()
	return r
}

// journalEntries counts the entries of the journal, of living and dead processes.
func (w *world) journalEntries() int {
	entries, _ := filepath.Glob(filepath.Join(w.dir, "intents", "*"))
	return len(entries)
}

// wantNothingLeft checks that the proxy was told to release just these names, and
// that neither a handle nor a journal entry is left.
func (w *world) wantNothingLeft(handle lockfile.Handle, released ...string) {
	w.t.Helper()
	if got := w.proxy.released(); !slices.Equal(got, released) {
		w.t.Errorf("released %v, want %v", got, released)
	}
	if r := w.record(handle); r.State != "" {
		w.t.Errorf("the handle is left: %+v", r)
	}
	for _, suffix := range []string{"", ".json", ".lock"} {
		if _, err := os.Lstat(handle.Path() + suffix); err == nil {
			w.t.Errorf("%s is left", handle.Path()+suffix)
		}
	}
	if n := w.journalEntries(); n != 0 {
		w.t.Errorf("%d journal entries are left", n)
	}
}

// within returns a context that ends after a minute, in case a call hangs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// take acquires a lease into a handle that others may know.
func (w *world) take(r Request) *Lease {
	w.t.Helper()
	r.Type, r.Handle, r.WaitTimeout, r.Outlives = "t", w.handle("handle"), time.Minute, true
	l, err := w.Acquire(within(w.t), r)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := l.HandOver(within(w.t), HandOver{}, func() error { return nil }); err != nil {
		w.t.Fatal(err)
	}
	return l
}
