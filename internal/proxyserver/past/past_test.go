package past

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// The memory of a pool that never stays the same is bounded.
func TestPastIsBounded(t *testing.T) {
	var d day
	for minute := range int64(3 * dayMinutes) {
		d.noteStarts(minute, 1)
		d.noteLevel(levelsOf{minute: minute, inUse: int32(minute)})
		d.waits.add(minute/60, time.Second)
	}
	if len(d.starts) > dayMinutes || len(d.levels) > dayMinutes+1 || len(d.waits.hours) > 24 {
		t.Errorf("%d starts, %d levels, %d hours", len(d.starts), len(d.levels), len(d.waits.hours))
	}
	var quiet day
	for minute := range int64(dayMinutes) {
		quiet.noteLevel(levelsOf{minute: minute, limit: 3})
	}
	if len(quiet.levels) != 1 {
		t.Errorf("%d levels of a pool that stays the same", len(quiet.levels))
	}
}

// A pool that did not change for more than a day is not shown as empty before its change.
func TestDayOfAPoolThatStoodStill(t *testing.T) {
	const moved = 2 * dayMinutes
	var d day
	d.noteLevel(levelsOf{minute: 0, inUse: 2, limit: 3})
	d.noteLevel(levelsOf{minute: moved, inUse: 1, limit: 3})
	minutes := make([]Minute, 3)
	d.fill(minutes, moved-1, levelsOf{minute: moved + 1, limit: 3})
	if minutes[0].InUse != 2 || minutes[1].InUse != 1 || minutes[2].InUse != 0 {
		t.Errorf("%+v", minutes)
	}
}

// The last thousand events are kept, the newest first, and can be filtered. An operator's act is not forgotten for them.
func TestEvents(t *testing.T) {
	p := New(time.Now, func() time.Duration { return 0 })
	p.Changed([]pool.Change{{Kind: pool.Paused, Pause: &pool.Pause{Type: "q"}, Act: pool.Act{By: "alice"}}})
	for i := range mostEvents + 10 {
		p.Changed([]pool.Change{{Kind: pool.Granted, Leases: []pool.Lease{{Name: fmt.Sprint("n", i), Type: "q", Owner: "me", RequestID: fmt.Sprint("r", i)}}}})
	}
	all := p.Find(2*mostEvents, func(Event) bool { return true })
	if len(all) != mostEvents+1 || all[0].Names[0] != "n1009" || all[mostEvents-1].Names[0] != "n10" || all[mostEvents].By != "alice" {
		t.Errorf("%d events, from %v to %v", len(all), all[0], all[len(all)-1])
	}
}

// The charts go on if the wall clock is set, and show its present time.
func TestDayWhenTheWallClockIsSet(t *testing.T) {
	wall, clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Hour
	p := New(func() time.Time { return wall }, func() time.Duration { return clock })
	grant := []pool.Change{{Kind: pool.Granted, Leases: []pool.Lease{{Name: "n", Type: "q"}}}}
	for _, set := range []time.Duration{0, -time.Hour, 3 * time.Hour} {
		wall, clock = wall.Add(set+time.Minute), clock+time.Minute
		p.Changed(grant)
		d := p.Day(pool.PoolStatus{Type: "q"})
		last := len(d.Minutes) - 1
		if now := d.Begin.Add(time.Duration(last) * time.Minute); d.Minutes[last].Starts != 1 || !now.Equal(wall.Truncate(time.Minute)) {
			t.Errorf("set by %v, at %v: from %v: %+v", set, wall, d.Begin, d.Minutes)
		}
		if ago := wall.Sub(d.Started); ago != time.Duration(last)*time.Minute {
			t.Errorf("set by %v: started %v ago", set, ago)
		}
	}
}

// Quantiles of waits are exact to a tenth, and forget what is older than a day.
func TestDayWaits(t *testing.T) {
	var d dayWaits
	for i := range 100 {
		d.add(1, time.Duration(i+1)*time.Second)
	}
	w := d.waits(1)
	near := func(got, want time.Duration) bool { return got > want*9/10 && got < want*11/10 }
	if w.Count != 100 || !near(w.P50, 50*time.Second) || !near(w.P95, 95*time.Second) {
		t.Errorf("%+v", w)
	}
	if w := d.waits(25); w.Count != 0 {
		t.Errorf("a day later: %+v", w)
	}
	d = dayWaits{}
	d.add(1, 0)
	d.add(1, 1000*time.Hour)
	if w := d.waits(1); w.P50 != 0 || w.P95 < 80*time.Hour {
		t.Errorf("%+v", w)
	}
}
