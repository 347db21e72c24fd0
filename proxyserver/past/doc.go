// Package past is what the status page shows of the past of a term: the last events,
// and the last day of each pool, by the minute. It is in memory, bounded, and begins
// with the term.
package past
