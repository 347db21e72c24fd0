// Package record says what the records of a store are: which keys and payloads
// stand for leases, waiters and all else that is durable. Every store keeps the
// same records, each in its own way.
//
// [Write] turns a change of the pools into records, and [Add] turns a record back
// into a part of what the pools begin from. The store adds what it needs itself,
// such as checksums, and a record of its own with the format, the clock and the
// last generation. The first byte of a key tells the kinds of records apart, and
// 'm' is left to the store.
//
// # Inside
//
// From the top down: record.go has the leases and requests that ended, queue.go
// who waits and what keeps names from them, reports.go has limits and what was
// reported of leases, asked.go what both have of a request, and table.go is where
// they go.
package record
