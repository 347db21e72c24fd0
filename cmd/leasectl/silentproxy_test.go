package main

import (
	"bytes"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/wiretest"
)

// Exec ends in time although its proxy has gone silent. CI systems send KILL as early as 5 s after
// TERM, and for a lost lease there is nothing to wait for. From the end of the command leasectl
// takes 3 s, not the 9.5 s of a release by hand.
func TestSilentProxyBoundsTheEnd(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	for _, tt := range []struct {
		name string
		end  func(leasectl *os.Process)
		want int
	}{
		{"TERM", func(leasectl *os.Process) { leasectl.Signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM)},
		{"lost", func(*os.Process) {}, exitLost}, // when the TTL is over
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			clitest.Promptly(t, 6*time.Second, func() time.Duration { // 3 s, and a slow machine
				w := newWorld(t, program, "unused=1")
				var silent atomic.Bool
				address, _ := w.Listen(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
					if silent.Load() || req.URL.Path != "/lease/acquire" {
						<-req.Context().Done()
						return
					}
					silent.Store(true)
					out.Write([]byte(`{"names":["a"],"leases":[{"name":"a","generation":1}],"ttl":"10s","renew_every":"3s","request_id":"` + wiretest.Asked(req).RequestID + `"}`))
				}))
				file := w.Path("pid")
				cmd := w.Command("exec", "--proxy", address, "--type", "install", "--ttl", "10s", "--grace-period", "1s", "--",
					"sh", "-c", "echo $$ >'"+file+"'; exec sleep 600")
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				pid := w.child(cmd, file)
				tt.end(cmd.Process)
				w.Await("the command to be stopped", func() bool { return !clitest.Lives(pid) })
				stopped := time.Now()
				if code := clitest.ExitCode(cmd.Wait()); code != tt.want {
					t.Errorf("exit code %d, want %d\n%s", code, tt.want, &stderr)
				}
				return time.Since(stopped)
			})
		})
	}
}
