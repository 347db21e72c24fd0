// Package eventlog writes what happens to leases, waiters and pools to the log: a line
// for each event, with who, what and how long.
//
// The lines of a request are in order: the one that says that it waits comes before the
// one that says how its wait ended, whoever writes them.
//
// The files, from the public down: eventlog.go has the log, lines.go its lines.
package eventlog
