package proxyclient

import "time"

// shortestSuspend is the least difference between the boot-time clock and the
// monotonic clock that counts as time suspended. The two cannot be read at the
// same moment, so their distance jitters by microseconds; no suspend and resume
// takes less than this.
const shortestSuspend = 10 * time.Millisecond
