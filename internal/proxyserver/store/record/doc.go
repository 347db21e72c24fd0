// Package record defines the records of a store: which keys and payloads stand for
// leases, waiters and all other durable state. Every store keeps the same records, each
// in its own way.
//
// [Write] turns a change of the pools into records, and [Add] turns a record back into a
// part of the snapshot from which the pools begin. The store itself adds, for instance,
// checksums, and a record with the format, the clock and the last generation. The first
// byte of a key is the kind of the record; 'm' is reserved for the store.
package record
