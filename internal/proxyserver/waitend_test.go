package proxyserver

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// However a wait ends, a line of the log says who waited, for how long and why the wait ended,
// and a metric counts it. A wait of several slices is logged as queued once.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		p := start(t, Options{Pools: []pool.Config{quota(2)}, Log: slog.New(slog.NewJSONHandler(&log, nil))})
		p.granted("type=q&count=2")
		wait := func(query string) {
			p.later(t.Context(), "type=q&"+query)
			synctest.Wait()
		}
		wait("owner=late&request_id=a&wait=40s")
		wait("owner=cancels&request_id=b")
		wait("owner=removed&request_id=c")
		wait("owner=large&request_id=d&count=2")
		time.Sleep(leaseapi.SliceTime)
		synctest.Wait()
		wait("owner=late&request_id=a&wait=15s")
		// An answer does not wait for the log.
		p.release(`{"request_ids":["b"]}`)
		synctest.Wait()
		p.do("POST", leaseapi.PathRemove, `{"request_id":"c","reason":"drill"}`)
		synctest.Wait()
		if err := p.server.SetPools([]pool.Config{quota(1)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wait("owner=leaves&request_id=e&wait=20s")
		p.do("POST", leaseapi.PathPause, `{"type":"q","reason":"throttled"}`)
		synctest.Wait()
		p.do("POST", leaseapi.PathResume, `{"type":"q"}`)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		samples := p.metrics()["leasectl_waits_ended_total"].samples
		p.stop()

		type line struct {
			Msg, Owner, Type, Reason string
			Count                    int
			Waited                   time.Duration
			RequestID                string `json:"request_id"`
		}
		var got []string
		for _, l := range logLines[line](t, log.String()) {
			if l.Type == "q" && l.Msg != "granted" && l.Msg != "pool changed" { // "pool changed" may come before "reconfigured"
				got = append(got, fmt.Sprintf("%s %s %s %d %v %s", l.Msg, l.Owner, l.RequestID, l.Count, l.Waited, l.Reason))
			}
		}
		want := []string{
			"queued late a 0 0s ", "queued cancels b 0 0s ", "queued removed c 0 0s ", "queued large d 2 0s ",
			"cancelled cancels b 0 25s ", "removed removed c 0 25s drill",
			"reconfigured large d 2 25s the pool can never give that many: 2 asked for, 1 there",
			"queued leaves e 0 0s ", "paused   0 0s throttled", "resumed   0 0s ",
			"timed out late a 0 40s ", "timed out leaves e 0 20s ",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the log has\n%q, want\n%q", got, want)
		}
		for how, n := range map[string]float64{"timed out": 2, "cancelled": 1, "removed": 1, "reconfigured": 1, "gone": 0} {
			if v, ok := samples[`leasectl_waits_ended_total{type="q",how="`+how+`"}`]; !ok || v != n {
				t.Errorf("%s: %v, want %v", how, v, n)
			}
		}
	})
}
