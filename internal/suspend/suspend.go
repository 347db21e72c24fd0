// Package suspend measures how long the machine was suspended. Go's timers, and its
// monotonic clock on Linux, stand still meanwhile, while other machines go on.
//
// Only Linux can measure this: elsewhere the time is zero.
package suspend

import "time"

// Shortest is the least change of [Total] that counts as suspended time. Total compares
// two clocks that cannot be read at the same moment, so it jitters by microseconds. No
// suspend and resume takes less time than Shortest.
const Shortest = 10 * time.Millisecond
