package proxyserver

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
	"github.com/leasectl/leasectl/leaseapi"
)

// A paused pool grants nothing until it is resumed, and shows the reason to waiters and to
// everybody who looks.
func TestPauseAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		paused := decode[leaseapi.PauseReply](t, p.do("POST", leaseapi.PathPause, `{"type":"q","reason":"throttled"}`), 200)
		if paused.Type != "q" || paused.Reason != "throttled" || !paused.Since.Equal(time.Now()) {
			t.Errorf("paused %+v", paused)
		}
		waiting := p.later(t.Context(), "type=q&request_id=r")
		time.Sleep(10 * time.Second)
		if pl := p.pools()[0]; pl.Paused != "throttled" || !pl.PausedSince.Equal(paused.Since) || pl.PausedFor != leaseapi.Duration(10*time.Second) || pl.Waiters[0].Reason.String() != "paused: throttled" {
			t.Errorf("pool %+v", pl)
		}
		resumed := decode[leaseapi.PauseReply](t, p.do("POST", leaseapi.PathResume, `{"type":"q"}`), 200)
		paused.For = leaseapi.Duration(10 * time.Second)
		if resumed != paused {
			t.Errorf("resumed %+v", resumed)
		}
		if got := decode[leaseapi.AcquireReply](t, <-waiting, 200); got.Names[0] != "q-0" {
			t.Errorf("granted %+v", got)
		}
		if again := decode[leaseapi.PauseReply](t, p.do("POST", leaseapi.PathResume, `{"type":"q"}`), 200); again != (leaseapi.PauseReply{Type: "q"}) {
			t.Errorf("resumed again %+v", again)
		}
	})
}

// A removed waiter is told why: a call that waits at this moment, and a call that comes back
// with its id.
func TestRemoveWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.granted("type=q&request_id=held")
		waiting := p.later(t.Context(), "type=q&request_id=r&owner=me")
		synctest.Wait()
		for range 2 { // a second copy of the call succeeds, too
			removed := decode[leaseapi.RemoveReply](t, p.do("POST", leaseapi.PathRemove, `{"request_id":"r","reason":"wrong account"}`), 200)
			if removed.RequestID != "r" {
				t.Errorf("removed %+v", removed)
			}
		}
		for _, r := range []reply{<-waiting, p.acquire("type=q&request_id=r&owner=me")} {
			if pr := decode[leaseapi.Problem](t, r, 410); pr.Type != leaseapi.ProblemRemoved || !strings.HasSuffix(pr.Detail, "removed the request: wrong account") {
				t.Errorf("told %+v", pr)
			}
		}
		for _, c := range []struct {
			body, problem string
			status        int
		}{
			{`{"request_id":"r","reason":"another reason"}`, leaseapi.ProblemEnded, 410},
			{`{"request_id":"held","reason":"x"}`, leaseapi.ProblemNotQueued, 409},
			{`{"request_id":"none","reason":"x"}`, leaseapi.ProblemUnknownRequest, 404},
			{`{"request_id":"none"}`, leaseapi.ProblemBadRequest, 400},
			{`{"reason":"x"}`, leaseapi.ProblemBadRequest, 400},
			{`x`, leaseapi.ProblemBadRequest, 400},
		} {
			if pr := decode[leaseapi.Problem](t, p.do("POST", leaseapi.PathRemove, c.body), c.status); pr.Type != c.problem {
				t.Errorf("%s: %+v", c.body, pr)
			}
		}
	})
}

func TestPauseErrors(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1)}})
	for _, c := range []struct {
		path, body, problem string
		status              int
	}{
		{leaseapi.PathPause, `{"type":"x","reason":"x"}`, leaseapi.ProblemUnknownType, 404},
		{leaseapi.PathPause, `{"type":"q"}`, leaseapi.ProblemBadRequest, 400},
		{leaseapi.PathPause, `{"reason":"x"}`, leaseapi.ProblemBadRequest, 400},
		{leaseapi.PathResume, `{"type":"x"}`, leaseapi.ProblemUnknownType, 404},
		{leaseapi.PathResume, `{}`, leaseapi.ProblemBadRequest, 400},
		{leaseapi.PathBackup, ``, leaseapi.ProblemNoStore, 409},
	} {
		if pr := decode[leaseapi.Problem](t, p.do("POST", c.path, c.body), c.status); pr.Type != c.problem {
			t.Errorf("%s %s: %+v", c.path, c.body, pr)
		}
	}
}

// Operating takes a token that is marked admin. A token that is marked read sees everything,
// and changes nothing.
func TestRoles(t *testing.T) {
	p, red, _, ops := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	eye := withToken(p, "e-token-0123456789")
	a := red.granted("type=q&owner=me")
	lease := withLeases(a.Leases[0])
	for path, body := range map[string]string{
		leaseapi.PathPause:                       `{"type":"q","reason":"x"}`,
		leaseapi.PathResume:                      `{"type":"q"}`,
		leaseapi.PathRemove:                      `{"request_id":"r","reason":"x"}`,
		leaseapi.PathBreak:                       `{"name":"q-0","reason":"x"}`,
		leaseapi.PathBackup:                      ``,
		leaseapi.PathAcquire + "?type=q&count=0": ``,
		leaseapi.PathRelease:                     `{"names":[]}`,
		leaseapi.PathRenew:                       lease,
	} {
		if pr := decode[leaseapi.Problem](t, eye.do("POST", path, body), 403); pr.Type != leaseapi.ProblemForbidden {
			t.Errorf("read at %s: %+v", path, pr)
		}
		operates := !strings.HasPrefix(path, "/lease/") || path == leaseapi.PathBreak || path == leaseapi.PathRemove
		if r := red.do("POST", path, body); (r.status == 403) != operates {
			t.Errorf("a user at %s: %d %s", path, r.status, r.body)
		}
	}
	for _, path := range []string{leaseapi.PathPools, leaseapi.PathMetrics, leaseapi.PathRequests + "x"} {
		if r := eye.do("GET", path, ""); r.status == 403 || r.status == 401 {
			t.Errorf("read at %s: %d", path, r.status)
		}
	}
	if r := ops.do("POST", leaseapi.PathPause, `{"type":"q","reason":"x"}`); r.status != 200 {
		t.Errorf("an admin cannot pause: %d %s", r.status, r.body)
	}
}

// A backup of a running server is a store: a server that starts on it has the leases and the
// pauses of that moment.
func TestBackupAndRestore(t *testing.T) {
	onDisk := func(dir string) Options {
		st, err := bolt.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return Options{Pools: []pool.Config{quota(2)}, Store: st}
	}
	p := start(t, onDisk(t.TempDir()))
	a := p.granted("type=q&owner=me&request_id=r")
	p.do("POST", leaseapi.PathPause, `{"type":"q","reason":"drill"}`)
	copied := p.do("POST", leaseapi.PathBackup, "")
	if copied.status != 200 {
		t.Fatal(copied.status, copied.body)
	}
	p.release(`{"request_ids":["r"]}`)

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, bolt.File), []byte(copied.body), 0o600); err != nil {
		t.Fatal(err)
	}
	back := start(t, onDisk(dir))
	if again := back.granted("type=q&owner=me&request_id=r"); again.Leases[0] != a.Leases[0] {
		t.Errorf("restored %+v, want %+v", again, a)
	}
	if pl := back.pools()[0]; pl.Paused != "drill" || pl.InUse != 1 {
		t.Errorf("restored %+v", pl)
	}
}

// A client may take longer to read a backup than any other answer.
func TestSlowBackup(t *testing.T) {
	dir := t.TempDir() // outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		kept, err := bolt.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, Options{Pools: []pool.Config{quota(1)}, Store: kept})
		client, err := p.pipes.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		io.WriteString(client, "POST "+leaseapi.PathBackup+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		time.Sleep(2 * writeTime)
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != resp.ContentLength {
			t.Errorf("%d of %d bytes, %v", n, resp.ContentLength, err)
		}
	})
}
