package proxyserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// reading returns a time as from [time.Now], with a given monotonic part and a wall part that
// differs from it. Package time has no way to make such a time.
func reading(wall time.Time, monotonic time.Duration) (t time.Time) {
	const hasMonotonic = 1 << 63
	epoch := time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC)
	raw := (*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&t))
	raw.wall = hasMonotonic | uint64(wall.Unix()-epoch.Unix())<<30 | uint64(wall.Nanosecond())
	raw.ext = int64(monotonic)
	return t
}

// Tests that set the wall clock prove nothing unless reading works.
func TestReading(t *testing.T) {
	wall := time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)
	a, b := reading(wall, time.Hour), reading(wall.Add(-5*time.Hour), time.Hour+time.Second)
	if !a.Equal(wall) || b.Sub(a) != time.Second || b.Round(0).Sub(a.Round(0)) != -5*time.Hour {
		t.Errorf("readings %v and %v", a, b)
	}
}

// wallClock is a wall clock that can be set.
type wallClock struct {
	begun time.Time
	off   atomic.Int64 // its error in nanoseconds
}

func (w *wallClock) now() time.Time {
	now := time.Now() // in a bubble it has no monotonic part
	return reading(now.Add(time.Duration(w.off.Load())), time.Second+now.Sub(w.begun))
}

func (w *wallClock) set(off time.Duration) { w.off.Store(int64(off)) }

// Setting the wall clock forward or back, at any time and over a restart, changes no time of
// leases, waiters and the pace, and no generation repeats.
func TestWallClockJumps(t *testing.T) {
	for _, c := range []struct {
		name  string
		jumps []time.Duration // errors of the clock, one after the other, every 7 s
		later time.Duration   // its error after the restart
	}{
		{"steady", []time.Duration{0}, 0},
		{"forward", []time.Duration{0, 6 * time.Hour}, 12 * time.Hour},
		{"back", []time.Duration{0, -6 * time.Hour}, -48 * time.Hour},
		{"to and fro", []time.Duration{3 * time.Hour, -5 * time.Hour, 40 * 24 * time.Hour, -time.Minute}, -90 * 24 * time.Hour},
		{"before 1970", []time.Duration{0, -35 * 365 * 24 * time.Hour}, -40 * 365 * 24 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each waits for the disk once in a second of its clock
			synctest.Test(t, func(t *testing.T) {
				w := &wallClock{begun: time.Now()}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					for n := 0; ctx.Err() == nil; n++ {
						w.set(c.jumps[n%len(c.jumps)])
						time.Sleep(7 * time.Second)
					}
				}()
				synctest.Wait()
				dir := t.TempDir()
				var log bytes.Buffer
				opts := Options{
					Pools: []pool.Config{quota(4), {Type: "paced", Names: pool.Numbered("n", 3), Pace: time.Minute}},
					Store: openStore(t, dir),
					Log:   slog.New(slog.NewJSONHandler(&log, nil)),
					now:   w.now,
				}
				before := life(t, opts)
				time.Sleep(24 * time.Hour) // the server is down
				cancel()
				w.set(c.later)
				opts.Store = openStore(t, dir)
				after := secondLife(t, opts)
				const exact = 1 << 53 // some clients read numbers as floats
				if last := slices.Max(before); slices.Min(after) <= last || slices.Max(after) > exact {
					t.Errorf("generations %v after %v", after, before)
				}
				want := []string{
					"0s granted [q-0]", "0s granted [q-1]", "0s granted [q-2]", "0s granted [q-3]",
					"0s release delayed [q-2]",
					"0s granted [n-0]", "1m0s granted [n-1]", "2m0s granted [n-2]", // at its pace
					"30s expired [q-3]",   // it was provisional
					"30s granted [q-3]",   // to the waiter
					"5m0s expired [q-0]",  // nobody renewed it
					"10m0s expired [q-1]", // renewed once, after five minutes
					"12m0s granted [q-0]", "12m0s released [q-0]",
					"24h12m0s granted [q-0]", // from here on, after the restart
					"24h20m0s released [q-2]",
					"24h32m0s expired [q-3]", // it has its full TTL again
				}
				if got := events(t, &log, w.begun); !slices.Equal(got, sorted(want)) {
					t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(sorted(want), "\n"))
				}
			})
		})
	}
}

// life runs a server for twelve minutes, and returns the generations that it gave.
func life(t *testing.T, opts Options) (generations []uint64) {
	p := start(t, opts)
	take := func(query string) leaseapi.Lease {
		l := p.granted(query).Leases[0]
		generations = append(generations, l.Generation)
		return l
	}
	renew := func(l leaseapi.Lease) {
		body, _ := json.Marshal(leaseapi.RenewRequest{Leases: []leaseapi.Lease{l}})
		decode[leaseapi.RenewReply](t, p.do("POST", "/lease/renew", string(body)), 200)
	}
	renew(take("type=q&request_id=expires&ttl=5m"))
	renewed := take("type=q&request_id=renewed&ttl=5m")
	renew(renewed)
	take("type=q&owner=delayed&ttl=1h")
	p.release(`{"names":["q-2"],"delay":"20m"}`)
	take("type=q&request_id=provisional&ttl=5h")
	waits := p.later(t.Context(), "type=q&owner=waiter&ttl=20m")
	for range 3 {
		p.later(t.Context(), "type=paced&owner=paced&ttl=10h")
		synctest.Wait()
	}
	begun := time.Now()
	if r := p.acquire("type=q&wait=20s"); r.status != 503 || time.Since(begun) != 20*time.Second {
		t.Errorf("a wait of 20 s was over after %v: %d %s", time.Since(begun), r.status, r.body)
	}
	got := decode[leaseapi.AcquireReply](t, <-waits, 200).Leases[0]
	generations = append(generations, got.Generation)
	time.Sleep(5*time.Minute - time.Since(begun) - time.Millisecond)
	renew(renewed)
	time.Sleep(12*time.Minute - time.Since(begun))
	take("type=q&owner=short") // the last one: the store keeps only its number
	p.release(`{"names":["q-0"]}`)
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	return generations
}

// secondLife runs the server for the hour after a restart.
func secondLife(t *testing.T, opts Options) (generations []uint64) {
	p := start(t, opts)
	for _, l := range p.granted("type=q&owner=last&ttl=10h").Leases {
		generations = append(generations, l.Generation)
	}
	time.Sleep(30 * time.Minute)
	synctest.Wait()
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	return generations
}

// events returns the log's lines about leases, with the time since begun.
func events(t *testing.T, log *bytes.Buffer, begun time.Time) (all []string) {
	type line struct {
		Time  time.Time
		Msg   string
		Names []string
	}
	for _, line := range logLines[line](t, log.String()) {
		if line.Names != nil && line.Msg != "ending" { // a warning, within seconds of its time
			all = append(all, fmt.Sprint(line.Time.Sub(begun).Round(10*time.Millisecond), " ", line.Msg, " ", line.Names))
		}
	}
	return sorted(all)
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

// Without a store generations begin with the wall clock. If it was set back, they do not grow,
// but still differ from earlier ones.
func TestGenerationsInMemoryAfterTheWallClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wallClock{begun: time.Now()}
		seen := make(map[uint64]time.Duration)
		for _, off := range []time.Duration{0, -time.Hour, time.Hour, -time.Minute, -35 * 365 * 24 * time.Hour} {
			w.set(off)
			p := start(t, Options{Pools: []pool.Config{{Type: "q", Names: pool.Numbered("n", 50)}}, now: w.now})
			last := uint64(0)
			for _, l := range p.granted("type=q&owner=me&count=50").Leases {
				if before, again := seen[l.Generation]; again || l.Generation <= last {
					t.Errorf("generation %d with the clock at %v, after %d, and with it at %v", l.Generation, off, last, before)
				}
				seen[l.Generation], last = off, l.Generation
			}
			p.stop()
			time.Sleep(time.Second)
		}
	})
}
