package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// refused is the error of a proxy that does not run.
var refused = &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, Err: syscall.ECONNREFUSED}

// If the proxy cannot be reached, the line says so instead of showing a place in the queue.
func TestWaitLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		w := &holder.Wait{Type: "install", Begun: begun}
		check := func(want string) {
			t.Helper()
			if got := waitLine(w, time.Now()); got != want {
				t.Errorf("says %q,\nwant %q", got, want)
			}
		}
		time.Sleep(2 * time.Second)
		check(`waiting 2s for a lease of type "install"`)
		failed := time.Now()
		w.SetTrouble(refused, failed)
		since := failed.Local().Format(time.TimeOnly)
		time.Sleep(time.Minute)
		check("cannot reach the proxy: dial tcp 127.0.0.1:80: connection refused; trying since " + since)
		w.SetTrouble(errors.New("the proxy answered 500: no"), failed)
		check("the proxy does not serve: the proxy answered 500: no; trying since " + since)
		w.SetTrouble(&proxyclient.NotLeaderError{}, failed)
		check("no server of the proxy leads; trying since " + since)
		w.SetQueued(leaseapi.Queued{Place: 1, Length: 2, Reason: leaseapi.WaitReason{Kind: leaseapi.WaitFull}})
		check(`waiting 1m2s for a lease of type "install": place 1 of 2, full`)
		w.SetQueued(leaseapi.Queued{Place: 1, Length: 2, Reason: leaseapi.WaitReason{Kind: leaseapi.WaitFull}, Page: "http://leases.test/ui/requests/r"})
		check(`waiting 1m2s for a lease of type "install": place 1 of 2, full; http://leases.test/ui/requests/r`)
		w.GivesUp = begun.Add(2 * time.Hour)
		check(`waiting 1m2s for a lease of type "install": place 1 of 2, full; gives up at ` + w.GivesUp.Local().Format("15:04") + `; http://leases.test/ui/requests/r`)
		w.GivesUp = begun.Add(24 * time.Hour)
		check(`waiting 1m2s for a lease of type "install": place 1 of 2, full; gives up at ` + w.GivesUp.Local().Format("15:04 on 2 January") + `; http://leases.test/ui/requests/r`)
		w.SetQueued(leaseapi.Queued{Reason: leaseapi.WaitReason{Kind: leaseapi.WaitJoined}}) // for as long as that takes
		if line := waitLine(w, time.Now()); strings.Contains(line, "gives up") {
			t.Errorf("says %q", line)
		}
	})
}

// The first line comes after two seconds, or when the proxy says something later than that, but
// after five seconds at the latest. Then a line comes when something changes, or ever more rarely.
func TestTellOfWait(t *testing.T) {
	for _, tt := range []struct {
		heard time.Duration // when the proxy says something
		want  []time.Duration
	}{
		{0, []time.Duration{2 * time.Second, 32 * time.Second, 92 * time.Second, 212 * time.Second, 452 * time.Second, 932 * time.Second, 1532 * time.Second, 2132 * time.Second}},
		{2500 * time.Millisecond, []time.Duration{2500 * time.Millisecond, 32500 * time.Millisecond}},
		{20 * time.Second, []time.Duration{5 * time.Second, 35 * time.Second, 65 * time.Second}},
		{100 * time.Second, []time.Duration{5 * time.Second, 35 * time.Second, 95 * time.Second, 125 * time.Second, 155 * time.Second, 215 * time.Second}},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			w := &holder.Wait{Type: "t", Begun: begun}
			ctx, cancel := context.WithTimeout(t.Context(), tt.want[len(tt.want)-1]+time.Second)
			defer cancel()
			go func() {
				time.Sleep(tt.heard)
				w.SetQueued(leaseapi.Queued{Place: 1})
			}()
			var said []time.Duration
			stop := proxyclient.After(ctx, firstReport, func(ctx context.Context) {
				tellOfWait(ctx, w, logEvery, logRarely, func(string) { said = append(said, time.Since(begun)) })
			})
			<-ctx.Done()
			stop()
			if len(said) != len(tt.want) {
				t.Fatalf("heard after %v: said at %v, want %v", tt.heard, said, tt.want)
			}
			for i := range said {
				if d := said[i] - tt.want[i]; d < 0 || d > 100*time.Millisecond {
					t.Errorf("heard after %v: said at %v, want %v", tt.heard, said, tt.want)
				}
			}
			time.Sleep(tt.heard)
		})
	}
}
