// Package suspend tells for how long the machine was suspended. Go's timers, and its
// monotonic clock on Linux, stand still in that time; other machines do not.
//
// Only Linux tells: elsewhere the time is zero.
package suspend

import "time"

// Shortest is the least change of [Total] that counts as time suspended. The two
// clocks that it compares cannot be read at the same moment, so their distance
// jitters by microseconds; no suspend and resume takes less than this.
const Shortest = 10 * time.Millisecond
