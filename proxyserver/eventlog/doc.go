// Package eventlog logs what happens to leases, waiters and pools: a line for each event,
// with who, what and how long.
//
// The lines of a request are in order: the line that its wait began comes before the line
// that says how the wait ended, whichever goroutines write them.
package eventlog
