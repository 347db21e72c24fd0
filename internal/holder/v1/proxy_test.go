package v1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// deployed is a version-1 proxy: it grants the free name that comes first, forgets a name before it
// asks the pool behind it, and fails in the ways of deployed ones.
type deployed struct {
	mu       sync.Mutex
	held     []string // as the proxy knows
	releases []string // that arrived, in their order

	failing  int           // so many releases get 500 after the name is forgotten
	broken   int           // so many releases get 500 of the proxy, before it looks at the name
	silent   bool          // releases get no answer
	answered chan struct{} // a release waits for this before its answer; nil: it does not wait
}

func (d *deployed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == leaseapi.PathAcquire:
		d.mu.Lock()
		defer d.mu.Unlock()
		name := ""
		for n := range 100 {
			if name = fmt.Sprintf("q-%d", n); !slices.Contains(d.held, name) {
				break
			}
		}
		d.held = append(d.held, name)
		json.NewEncoder(w).Encode(map[string]any{"names": []string{name}})
	case r.URL.Path == leaseapi.PathRelease:
		var req struct{ Names []string }
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &req); err != nil || len(req.Names) == 0 {
			return // as it does without names
		}
		d.release(w, r, req.Names[0])
	default:
		http.NotFound(w, r)
	}
}

func (d *deployed) release(w http.ResponseWriter, r *http.Request, name string) {
	d.mu.Lock()
	d.releases = append(d.releases, name)
	if d.broken > 0 {
		d.broken--
		d.mu.Unlock()
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	at := slices.Index(d.held, name)
	if at >= 0 {
		d.held = slices.Delete(d.held, at, at+1)
	}
	failing, silent, answered := d.failing > 0, d.silent, d.answered
	if failing {
		d.failing--
	}
	d.mu.Unlock()
	if answered != nil {
		<-answered
	}
	switch {
	case silent:
		<-r.Context().Done()
	case at < 0:
		http.Error(w, fmt.Sprintf("Failed to release lease %s: no resource name %s", name, name), http.StatusInternalServerError)
	case failing:
		http.Error(w, fmt.Sprintf("Failed to release lease %s: boskos: timeout", name), http.StatusInternalServerError)
	}
}

func (d *deployed) sent() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.releases)
}

// machine is a state directory, and proxies as its processes see them.
type machine struct {
	*testing.T
	dir string
	d   *deployed
	url string
}

func newMachine(t *testing.T) *machine {
	d := &deployed{}
	s := httptest.NewServer(d)
	t.Cleanup(s.Close)
	return &machine{T: t, dir: t.TempDir() + "/state", d: d, url: s.URL}
}

// process returns the proxy as a new process sees it.
func (m *machine) process() *Proxy {
	m.Helper()
	c, err := proxyclient.New(proxyclient.Options{URL: m.url})
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(c.Close)
	return &Proxy{Client: c, Address: m.url, Adapter: New(m.dir)}
}

// acquire takes a name for a handle.
func (m *machine) acquire(handle string) Record {
	m.Helper()
	g, err := m.process().Acquire(m.Context(), proxyclient.Request{Ask: leaseapi.Ask{Type: "q"}, Owner: "me", RequestID: "r-" + filepath.Base(handle), Wait: time.Minute}, handle)
	if err != nil {
		m.Fatal(err)
	}
	if len(g.Leases) != 1 || g.Leases[0].Generation == 0 || g.Adapter == "" {
		m.Fatalf("granted %+v", g)
	}
	return Record{Proxy: m.url, Adapter: g.Adapter, Owner: "me", Handle: handle, Leases: g.Leases}
}

// short bounds a release at a proxy that does not answer.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantOver fails unless nothing was released, since it was before.
func (m *machine) wantOver(reply leaseapi.ReleaseReply, err error) {
	m.Helper()
	if err != nil || len(reply.Released) > 0 || len(reply.Over)+len(reply.Stale) != 1 {
		m.Errorf("released again: %+v, %v", reply, err)
	}
}

func (m *machine) wantUnconfirmed(err error) {
	m.Helper()
	if _, is := errors.AsType[*UnconfirmedError](err); !is || !errors.Is(err, proxyclient.ErrUnconfirmed) || !strings.Contains(err.Error(), "--forget q-0") {
		m.Errorf("the error is %v", err)
	}
}

func (m *machine) wantUnsettled(states ...NameState) {
	m.Helper()
	unsettled, err := New(m.dir).Unsettled()
	ok(m.T, err)
	var got []NameState
	for _, h := range unsettled {
		got = append(got, h.State)
		if h.Why == "" || h.Since.IsZero() || h.Proxy != m.url {
			m.Errorf("it does not say enough: %+v", h)
		}
	}
	if !slices.Equal(got, states) {
		m.Errorf("unsettled are %v, want %v", got, states)
	}
}

func (m *machine) wantSent(n int) {
	m.Helper()
	if got := m.d.sent(); got != n {
		m.Errorf("%d releases arrived, want %d", got, n)
	}
}

// A lease is released once, however often and in whichever way.
func TestReleasedOnce(t *testing.T) {
	m := newMachine(t)
	a := m.acquire("/h")
	reply, err := m.process().ReleaseHeld(t.Context(), a)
	ok(t, err)
	if !slices.Equal(reply.Released, []string{"q-0"}) || len(reply.Over) > 0 {
		t.Errorf("released %+v", reply)
	}
	m.wantOver(m.process().ReleaseHeld(t.Context(), a))
	m.wantUnsettled()
	m.wantSent(1)

	// The name is somebody else's by now, on this machine: the old record means nothing.
	b := m.acquire("/h2")
	m.wantOver(m.process().ReleaseHeld(t.Context(), a))
	m.wantSent(1)

	// By its name: the handle is told, and has nothing left to release.
	names := proxyclient.NamesRelease{Names: []string{"q-0"}, Owner: "me", Learned: time.Now()}
	reply, handles, err := m.process().ReleaseNames(t.Context(), names, Meant{Owner: "me"})
	ok(t, err)
	if len(reply.Released) != 1 || len(handles) != 1 || handles[0].Handle != "/h2" {
		t.Errorf("released %+v, of the handles %+v", reply, handles)
	}
	m.wantOver(m.process().ReleaseHeld(t.Context(), b))
	m.wantSent(2)
}

// A name means the lease that this machine has, unless it is younger than the name, of another
// owner, or of another request.
func TestNamesOfAnotherLease(t *testing.T) {
	m := newMachine(t)
	m.acquire("/h")
	for what, n := range map[string]struct {
		release proxyclient.NamesRelease
		request string
	}{
		"younger":         {proxyclient.NamesRelease{Names: []string{"q-0"}, Owner: "me", Learned: time.Now().Add(-time.Minute)}, ""},
		"another owner":   {proxyclient.NamesRelease{Names: []string{"q-0"}, Owner: "you", Learned: time.Now()}, ""},
		"another request": {proxyclient.NamesRelease{Names: []string{"q-0"}, Owner: "me", Learned: time.Now()}, "r-0"},
	} {
		reply, _, err := m.process().ReleaseNames(t.Context(), n.release, Meant{Request: n.request, Owner: n.release.Owner})
		ok(t, err)
		if len(reply.Stale) != 1 || reply.Stale[0].Reason == "" {
			t.Errorf("%s: %+v", what, reply)
		}
	}
	m.wantSent(0)
	// Within the tolerance, it is meant.
	_, _, err := m.process().ReleaseNames(t.Context(), proxyclient.NamesRelease{Names: []string{"q-0"}, Owner: "me", Learned: time.Now().Add(-time.Second)}, Meant{Request: "r-h", Owner: "me"})
	ok(t, err)
	m.wantSent(1)
}

// What another machine got, and a bare name without a file, are sent as deployed clients send them.
func TestUnknownHere(t *testing.T) {
	m := newMachine(t)
	a := m.acquire("/h")
	other := &machine{T: t, dir: t.TempDir() + "/state", d: m.d, url: m.url}
	_, err := other.process().ReleaseHeld(t.Context(), a)
	ok(t, err)
	m.wantSent(1)
	other.wantUnsettled()

	reply, _, err := other.process().ReleaseNames(t.Context(), proxyclient.NamesRelease{Names: []string{"q-7"}, Owner: "me", Learned: time.Now()}, Meant{Owner: "me"})
	ok(t, err)
	if len(reply.Released) != 1 {
		t.Errorf("a name that the proxy does not know: %+v", reply)
	}
	other.wantUnsettled() // it was not held here
	m.wantSent(2)

	// It is sent once: in doubt it is unconfirmed here.
	b := m.acquire("/h")
	b.Leases[0].Name = "q-1"
	m.acquire("/h1")
	m.d.failing = 1
	_, err = other.process().ReleaseHeld(t.Context(), Record{Proxy: b.Proxy, Adapter: b.Adapter, Leases: b.Leases})
	if !errors.Is(err, proxyclient.ErrUnconfirmed) {
		t.Errorf("%v", err)
	}
	other.wantUnsettled(NameUnconfirmed)
	sent := m.d.sent()
	if _, err = other.process().ReleaseHeld(t.Context(), b); !errors.Is(err, proxyclient.ErrUnconfirmed) {
		t.Errorf("%v", err)
	}
	m.wantSent(sent)
}

// In doubt a release is never sent again, and stays until it is forgotten.
func TestUnconfirmed(t *testing.T) {
	for name, fail := range map[string]func(*deployed){
		"forgets before it asks": func(d *deployed) { d.failing = 1 },
		"silent":                 func(d *deployed) { d.silent = true },
		"500 to everything":      func(d *deployed) { d.broken = 1 << 30 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			a := m.acquire("/h")
			fail(m.d)
			ctx := t.Context()
			if name != "forgets before it asks" {
				ctx = short(t)
			}
			_, err := m.process().ReleaseHeld(ctx, a)
			m.wantUnconfirmed(err)
			m.wantUnsettled(NameUnconfirmed)
			sent := m.d.sent()
			_, err = m.process().ReleaseHeld(t.Context(), a)
			m.wantUnconfirmed(err)
			_, _, err = m.process().ReleaseNames(t.Context(), proxyclient.NamesRelease{Names: []string{"q-0"}, Owner: "me"}, Meant{Owner: "me"})
			m.wantUnconfirmed(err)
			m.wantSent(sent)
			forgotten, err := New(m.dir).Forget(t.Context(), "q-0")
			ok(t, err)
			if len(forgotten) != 1 || forgotten[0].Handle != "/h" {
				t.Errorf("forgot %+v", forgotten)
			}
			m.wantUnsettled()
			m.wantOver(m.process().ReleaseHeld(t.Context(), a))
			m.wantSent(sent)
		})
	}
}

// A release that is slow is not cut off by who has little time: it would be unconfirmed for ever.
func TestSlowRelease(t *testing.T) {
	m := newMachine(t)
	a := m.acquire("/h")
	m.d.answered = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for m.d.sent() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		close(m.d.answered)
	}()
	reply, err := m.process().ReleaseHeld(ctx, a)
	ok(t, err)
	if len(reply.Released) != 1 {
		t.Errorf("released %+v", reply)
	}
	m.wantUnsettled()
}

// A release that the proxy fails to make, and then makes, is one that succeeded.
func TestTriedAgain(t *testing.T) {
	m := newMachine(t)
	a := m.acquire("/h")
	m.d.broken = 1
	reply, err := m.process().ReleaseHeld(t.Context(), a)
	ok(t, err)
	if len(reply.Released) != 1 {
		t.Errorf("released %+v", reply)
	}
	m.wantUnsettled()
}

// A proxy that was restarted has forgotten its names: that is said, and listed until it is
// forgotten, but no failure.
func TestRestartedProxy(t *testing.T) {
	m := newMachine(t)
	a := m.acquire("/h")
	m.d.held = nil
	reply, err := m.process().ReleaseHeld(t.Context(), a)
	ok(t, err)
	if len(reply.Over) != 1 || reply.Over[0].Reason != proxyclient.UnknownName {
		t.Errorf("released %+v", reply)
	}
	m.wantUnsettled(NameMissing)
	m.wantOver(m.process().ReleaseHeld(t.Context(), a))
	m.wantSent(1)
	_, err = New(m.dir).Forget(t.Context(), "q-0")
	ok(t, err)
	m.wantUnsettled()
}

// If nothing can have arrived, the lease is held as before.
func TestNotReached(t *testing.T) {
	m := newMachine(t)
	a := m.acquire("/h")
	was := m.url
	m.url = "unix://" + m.dir + "/nobody" // where nobody listens
	p := m.process()
	p.Address = was
	if _, err := p.ReleaseHeld(short(t), a); err == nil || errors.Is(err, proxyclient.ErrUnconfirmed) {
		t.Errorf("%v", err)
	}
	m.url = was
	m.wantUnsettled()
	if h, found := New(m.dir).Find(was, "q-0"); !found || h.Handle != "/h" || h.Why != "" || !h.Since.IsZero() {
		t.Errorf("it is held: %t, %+v", found, h)
	}
	_, err := m.process().ReleaseHeld(t.Context(), a)
	ok(t, err)
	m.wantSent(1)
}

// Of two that release a lease at the same moment, one asks the proxy and the other waits for the
// result.
func TestTwoAtOnce(t *testing.T) {
	m := newMachine(t)
	a := m.acquire("/h")
	m.d.answered = make(chan struct{})
	first, second := make(chan error), make(chan error)
	go func() {
		_, err := m.process().ReleaseHeld(t.Context(), a)
		first <- err
	}()
	for m.d.sent() == 0 {
		time.Sleep(time.Millisecond)
	}
	m.wantUnsettled() // a process is at it
	began := make(chan struct{})
	go func() {
		p := m.process()
		close(began)
		_, _, err := p.ReleaseNames(t.Context(), proxyclient.NamesRelease{Names: []string{"q-0"}, Owner: "me"}, Meant{Owner: "me"})
		second <- err
	}()
	<-began
	select {
	case err := <-second:
		t.Errorf("the second did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(m.d.answered)
	ok(t, <-first)
	ok(t, <-second)
	m.wantSent(1)
}

// What a killed process leaves of each state, and what the next one does with it.
func TestKilled(t *testing.T) {
	m := newMachine(t)
	a := m.acquire("/h")
	set := func(change func(h *Held)) {
		t.Helper()
		ok(t, New(m.dir).cell(m.url, "q-0").Update(t.Context(), func(tx *lockfile.CellTx) error {
			var h Held
			if _, err := tx.Value(&h); err != nil {
				return err
			}
			change(&h)
			return tx.Set(h)
		}))
	}
	// Killed before the handle was written: the request finds the lease.
	held, err := New(m.dir).OfRequest("r-h")
	ok(t, err)
	if len(held) != 1 || held[0].Name != "q-0" {
		t.Errorf("the request has %+v", held)
	}
	// Killed while it asked, or with the answer in its hands: nobody knows.
	set(func(h *Held) { h.State, h.Since = NameReleasing, now() })
	_, err = m.process().ReleaseHeld(t.Context(), a)
	m.wantUnconfirmed(err)
	m.wantSent(0)
	m.wantUnsettled(NameUnconfirmed)
	// The proxy grants the name anew: the old release does not matter any more.
	m.d.held = nil
	b := m.acquire("/h2")
	m.wantUnsettled()
	_, err = m.process().ReleaseHeld(t.Context(), b)
	ok(t, err)
	m.wantSent(1)
}

// A file of a newer program is left alone, and the name that was granted is given back.
func TestNewerFile(t *testing.T) {
	m := newMachine(t)
	a := m.acquire("/h")
	cell := New(m.dir).cell(m.url, "q-0")
	ok(t, cell.Update(t.Context(), func(tx *lockfile.CellTx) error { return tx.Remove() }))
	const text = `{"format":99,"lease":"q-0"}` + "\n"
	ok(t, os.WriteFile(string(cell), []byte(text), 0o600))
	if _, err := m.process().ReleaseHeld(t.Context(), a); !errors.Is(err, lockfile.ErrNewer) {
		t.Errorf("%v", err)
	}
	m.d.held = nil
	_, err := m.process().Acquire(t.Context(), proxyclient.Request{Ask: leaseapi.Ask{Type: "q"}, Wait: time.Minute}, "/h")
	if !errors.Is(err, lockfile.ErrNewer) || errors.Is(err, proxyclient.ErrUnconfirmed) || len(m.d.held) > 0 {
		t.Errorf("%v; held are %v", err, m.d.held)
	}
	got, err := os.ReadFile(string(cell))
	ok(t, err)
	if string(got) != text {
		t.Errorf("the file is now %q", got)
	}
	if _, err := New(m.dir).Unsettled(); !errors.Is(err, lockfile.ErrNewer) {
		t.Errorf("listed: %v", err)
	}
}

// If the file of one name cannot be written, all names of the grant are given back. So no file says
// that one of them is held: a later release of it might end somebody else's lease.
func TestHalfWritten(t *testing.T) {
	m := newMachine(t)
	p := m.process()
	_, err := p.Adapter.makeID(t.Context())
	ok(t, err)
	ok(t, os.WriteFile(string(p.Adapter.cell(m.url, "q-1")), []byte(`{"format":99}`+"\n"), 0o600))
	m.d.failing = 1
	_, err = p.Acquire(t.Context(), proxyclient.Request{Ask: leaseapi.Ask{Type: "q", Count: 2}, RequestID: "r", Wait: time.Minute}, "/h")
	if !errors.Is(err, proxyclient.ErrUnconfirmed) {
		t.Errorf("the pool failed, and the error is %v", err)
	}
	if h, found := p.Adapter.Find(m.url, "q-0"); found {
		t.Errorf("it was given back, and its file says %+v", h)
	}
}

// Several leases of one grant: each has its own fate.
func TestSeveral(t *testing.T) {
	m := newMachine(t)
	g, err := m.process().Acquire(t.Context(), proxyclient.Request{Ask: leaseapi.Ask{Type: "q", Count: 3}, RequestID: "r", Wait: time.Minute}, "/h")
	ok(t, err)
	m.d.mu.Lock()
	m.d.failing = 1
	m.d.mu.Unlock()
	reply, err := m.process().ReleaseHeld(t.Context(), Record{Proxy: m.url, Adapter: g.Adapter, Leases: g.Leases})
	m.wantUnconfirmed(err)
	if !slices.Equal(reply.Released, []string{"q-1", "q-2"}) {
		t.Errorf("released %+v", reply)
	}
	m.wantUnsettled(NameUnconfirmed)
}
