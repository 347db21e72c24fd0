package proxyserver

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A request queues once: after a restart its waiter returns, which is said once,
// too, however often its client asks.
func TestLogOfAReturnedWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for life := range 2 {
			var log logText
			opts := durable(t, dir, 1)
			opts.Log = slog.New(slog.NewTextHandler(&log, nil))
			p := start(t, opts)
			if life == 0 {
				p.granted("type=q&owner=holder&ttl=1h")
			}
			p.later(t.Context(), "type=q&request_id=b")
			time.Sleep(30 * time.Second) // more than a slice
			p.later(t.Context(), "type=q&request_id=b")
			time.Sleep(2 * time.Second)
			if err := p.stop(); err != nil {
				t.Fatal(err)
			}
			queued, returned := strings.Count(log.String(), "msg=queued"), strings.Count(log.String(), "msg=returned")
			if queued != 1-life || returned != life {
				t.Errorf("life %d: %d lines of queued, %d of returned\n%s", life, queued, returned, log.String())
			}
		}
	})
}
