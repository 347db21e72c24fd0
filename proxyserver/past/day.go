package past

import (
	"slices"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// Minute is one minute of a pool.
type Minute struct {
	Starts  int // leases granted in it
	InUse   int // at its end, as are Limit and Waiting
	Limit   int
	Waiting int
}

// Day is the last day of a pool, as far as the server knows it.
type Day struct {
	Begin   time.Time // of the first minute
	Minutes []Minute  // without gaps; the last is the present one
	Started time.Time // when the server started
}

// dayMinutes bounds what is kept of a pool: 50 KB, if each minute of a day differs from the
// one before.
const dayMinutes = 24 * 60

// day is the last day of a pool. Levels that stay the same are kept once.
type day struct {
	starts []startsOf // of minutes with any
	levels []levelsOf // of minutes that differ from the one before
	waits  dayWaits
}

type startsOf struct {
	minute int64
	count  int32
}

type levelsOf struct {
	minute                int64
	inUse, limit, waiting int32
}

func levelOf(minute int64, p pool.PoolStatus) levelsOf {
	return levelsOf{minute, int32(p.InUse), int32(p.Limit), int32(p.Waiting)}
}

// noteStarts notes starts in a minute.
func (d *day) noteStarts(minute int64, count int) {
	if n := len(d.starts); n > 0 && d.starts[n-1].minute == minute {
		d.starts[n-1].count += int32(count)
		return
	}
	for len(d.starts) > 0 && d.starts[0].minute <= minute-dayMinutes {
		d.starts = d.starts[1:]
	}
	d.starts = append(d.starts, startsOf{minute, int32(count)})
}

// noteLevel notes the state of the pool at the end of a minute.
func (d *day) noteLevel(now levelsOf) {
	if n := len(d.levels); n > 0 {
		same := d.levels[n-1]
		if same.minute = now.minute; same == now {
			return
		}
	}
	// The last level that is too old stays: it says how the day began.
	for len(d.levels) > 1 && d.levels[1].minute <= now.minute-dayMinutes {
		d.levels = d.levels[1:]
	}
	d.levels = append(d.levels, now)
}

// fill writes the day into minutes. The first of them is minute begin; the last is now.
func (d *day) fill(minutes []Minute, begin int64, now levelsOf) {
	for _, s := range d.starts {
		if i := s.minute - begin; i >= 0 && i < int64(len(minutes)) {
			minutes[i].Starts = int(s.count)
		}
	}
	levels := append(slices.Clone(d.levels), now)
	next := 0
	var at levelsOf
	for i := range minutes {
		for next < len(levels) && levels[next].minute <= begin+int64(i) {
			at = levels[next]
			next++
		}
		m := &minutes[i]
		m.InUse, m.Limit, m.Waiting = int(at.inUse), int(at.limit), int(at.waiting)
	}
}
