package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/wiretest"
)

// A proxy that grants a lease and then fails every renewal does not delay an acquire for ever: the
// grant is provisional, so after 30 s there is nothing left to confirm.
func TestAcquireThatCannotBeConfirmed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	var released atomic.Bool
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	address, _ := w.Listen(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/lease/acquire":
			out.Write([]byte(`{"names":["a"],"leases":[{"name":"a","generation":1}],"ttl":"5m","renew_every":"1m40s","request_id":"` + wiretest.Asked(req).RequestID + `"}`))
		case "/lease/release":
			released.Store(true)
			out.Write([]byte(`{"released":["a"]}`))
		default:
			http.Error(out, "no store", 500)
		}
	}))
	cmd := w.Command("acquire", "--proxy", address, "--type", "install", "--wait-timeout", "1s")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	killed := time.AfterFunc(clitest.Patience, func() { cmd.Process.Kill() })
	defer killed.Stop()
	err := cmd.Run()
	if code := clitest.ExitCode(err); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	if !strings.Contains(stderr.String(), "confirm the lease") || !released.Load() {
		t.Errorf("it was given back: %v; it said:\n%s", released.Load(), stderr.String())
	}
}
