package holder

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/internal/holder/usage"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// counted makes the world's proxy one of a counted pool: each lease has so many units, and so
// many are free.
func (w *world) counted(units, free int) *countedPool {
	p := &countedPool{units: units, free: free}
	inner := w.Proxy.Config.Handler
	w.Proxy.Config.Handler = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case leaseapi.PathHealth:
			holdertest.Reply(out, http.StatusOK, leaseapi.Health{Status: "ok", Wire: leaseapi.Wire})
		case leaseapi.PathResize:
			p.resize(out, r)
		case leaseapi.PathAcquire:
			answer := httptest.NewRecorder()
			inner.ServeHTTP(answer, r)
			var granted leaseapi.AcquireReply
			if err := json.Unmarshal(answer.Body.Bytes(), &granted); err != nil {
				w.T.Error(err)
			}
			granted.Leases[0].Units = p.units
			holdertest.Reply(out, http.StatusOK, granted)
		default:
			inner.ServeHTTP(out, r)
		}
	})
	return p
}

type countedPool struct {
	units, free int
	asked       []leaseapi.ResizeRequest
	counts      bool // it counts resizes
	resizes     int
}

func (p *countedPool) resize(w http.ResponseWriter, r *http.Request) {
	var req leaseapi.ResizeRequest
	json.NewDecoder(r.Body).Decode(&req)
	p.asked = append(p.asked, req)
	problem := func(typ string) {
		w.Header().Set("Content-Type", leaseapi.ContentTypeProblem)
		w.WriteHeader(http.StatusConflict)
		json.NewEncoder(w).Encode(leaseapi.Problem{Type: typ, Held: p.units, Need: req.Count - p.units, Free: p.free, Resizes: p.resizes})
	}
	switch {
	case req.From != p.units && req.Count != p.units, p.counts && *req.After != p.resizes:
		problem(leaseapi.ProblemStale)
		return
	case p.counts:
		p.resizes++
	}
	switch {
	case req.Count > p.units+p.free:
		problem(leaseapi.ProblemNoRoom)
	default:
		p.units, p.free = req.Count, p.free+p.units-req.Count
		holdertest.Reply(w, http.StatusOK, leaseapi.ResizeReply{Units: p.units, Resizes: p.resizes})
	}
}

// After a resize the handle says how many units the lease holds, even if the resize failed, and
// even if the handle was wrong before, as after a kill of an earlier resize.
func TestResize(t *testing.T) {
	w := newWorld(t)
	p := w.counted(512, 100)
	l := w.take(Request{Ask: leaseapi.Ask{Key: "k", Items: new(7)}})
	if r := w.record(l.handle); r.Units != 512 || r.Key != "k" || r.Items == nil || *r.Items != 7 || r.Count != 0 {
		t.Errorf("the handle says %+v", r)
	}
	step := func(to, want int, wantErr error) {
		t.Helper()
		units, err := w.Resize(holdertest.Within(t), l.handle, Size{Count: to})
		if !errors.Is(err, wantErr) || err == nil && units != want || p.units != want || w.record(l.handle).Units != want {
			t.Errorf("to %d: %d, %v; the proxy has %d, the handle %d, want %d, %v", to, units, err, p.units, w.record(l.handle).Units, want, wantErr)
		}
	}
	step(600, 600, nil)
	step(200, 200, nil)
	step(613, 200, proxyclient.ErrNoRoom)
	p.units, p.free = 300, 312
	step(612, 612, nil)
	p.units, p.free = 300, 10
	step(612, 300, proxyclient.ErrNoRoom)
	last := p.asked[len(p.asked)-1]
	if last.From != 300 || last.Count != 612 || last.Generation == 0 {
		t.Errorf("the proxy was asked %+v at last", last)
	}
	if _, err := w.Release(holdertest.Within(t), l.handle, w.record(l.handle), Delay{}); err != nil {
		t.Error(err)
	}
	if _, err := w.Resize(holdertest.Within(t), l.handle, Size{Count: 1}); err == nil || errors.Is(err, usage.Err) {
		t.Errorf("the handle is gone, and a resize says %v", err)
	}
	w.WantNothingLeft(l.handle, "lease1")
}

// A resize says how many came before it, by the answer to the last one, which may have found no
// room. If the handle does not know that number, the proxy is asked once more.
func TestResizeSaysAfter(t *testing.T) {
	w := newWorld(t)
	p := w.counted(512, 100)
	p.counts = true
	l := w.take(Request{})
	for asked, to := range []int{600, 700, 700, 200} {
		w.Resize(holdertest.Within(t), l.handle, Size{Count: to})
		last := p.asked[len(p.asked)-1]
		if r := w.record(l.handle); len(p.asked) != asked+1 || *last.After != asked || r.Resizes != asked+1 {
			t.Errorf("to %d: asked %d times, at last after %d; the handle says %d", to, len(p.asked), *last.After, r.Resizes)
		}
	}
	p.resizes = 7 // as after resizes that were killed before they could write
	units, err := w.Resize(holdertest.Within(t), l.handle, Size{Count: 300})
	if r := w.record(l.handle); err != nil || units != 300 || r.Units != 300 || r.Resizes != 8 || len(p.asked) != 6 {
		t.Errorf("%d units, %v; asked %d times, the handle says %+v", units, err, len(p.asked), r)
	}
}

// Handles that have not one lease are refused without asking the proxy.
func TestResizeRefused(t *testing.T) {
	w := newWorld(t)
	p := w.counted(0, 100)
	l := w.take(Request{})
	two := w.Handle("two")
	r := w.record(l.handle)
	r.Leases = append(r.Leases, lockfile.Lease{Name: "b", Generation: 9})
	w.Write(two, r)
	if _, err := w.Resize(holdertest.Within(t), two, Size{Count: 1}); !errors.Is(err, usage.Err) {
		t.Errorf("two leases: %v", err)
	}
	if len(p.asked) > 0 {
		t.Errorf("the proxy was asked %+v", p.asked)
	}
}

// The peak of a command goes with the release of its lease, even if a reacquire sends it, and
// with no other release.
func TestPeakGoesWithRelease(t *testing.T) {
	w := newWorld(t)
	w.counted(512, 0)
	handle := w.Handle("handle")
	peak := leaseapi.Peak{Bytes: 7, Source: leaseapi.PeakOfProcess}
	first := w.take(Request{})
	first.Used(peak)
	again, err := w.Acquire(holdertest.Within(t), Request{Ask: leaseapi.Ask{Type: "t"}, Handle: handle, WaitTimeout: time.Minute, Replaces: Anything})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Release(holdertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	releases := w.Proxy.Releases
	if len(releases) != 2 || releases[0].Peak == nil || *releases[0].Peak != peak || releases[1].Peak != nil {
		t.Errorf("the proxy was told %+v", releases)
	}
}

// A request that waits for a key of its own owner says so. Another owner's key is not taken for
// it.
func TestHeldByYourself(t *testing.T) {
	l := &Lease{record: lockfile.Record{Owner: "job-1"}}
	for owner, want := range map[string]string{"job-1": "key held by yourself", "job-10": "key held by job-10", "": "key"} {
		reason := leaseapi.WaitReason{Kind: leaseapi.WaitKey, By: owner}
		if got := l.markOwn(leaseapi.Queued{Reason: reason}).Reason.String(); got != want {
			t.Errorf("%+v: says %q, want %q", reason, got, want)
		}
	}
}
