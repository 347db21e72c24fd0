// Package etcd keeps the state of lease servers in etcd, and decides which of them
// leads. Package replicated has the rules; this package is its database. A commit is on the disks
// of a majority of etcd's members when it returns.
//
// # Keys
//
//	PREFIX/leader            who leads: a nonce, the TTL, and the URL for clients
//	PREFIX/meta              the format, the id, the lease clock and the last generation
//	PREFIX/records/NUMBER    records of package record: those of one request, or the
//	                         ids that one commit ended
//	PREFIX/standby/NONCE     a server that stands by; only people need it
//
// The package uses etcd's JSON gateway (/v3/…, version 3.4 and later) with net/http,
// because etcd's gRPC client would cost every command 1.4 ms at its start.
package etcd
