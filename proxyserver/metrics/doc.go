// Package metrics counts what a server does, and writes it for scrapers. It knows
// nothing of HTTP, nor of how the server decides.
//
//   - Grants and ends of leases count when they are durable.
//   - The series of a pool begin at zero, so that a first event is an increase. They
//     stay when the pool has gone. Clients cannot make up series: a type that does not
//     exist counts as the empty type.
//   - Counts are in memory, and begin at zero with each process.
//
// [Counts] is safe for concurrent use.
//
// # The files
//
// counts.go counts; text.go writes what was counted, and how the pools stand; peaks.go
// has what commands used; process.go what dashboards expect of every Go program.
package metrics
