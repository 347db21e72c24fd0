// Package past keeps what the status page shows of the past of a term: the last events,
// and the last day of each pool, by the minute. It keeps this in memory, bounded, and begins
// empty with the term.
package past
