// Package etcd keeps the state of lease servers in etcd, and decides which of them
// leads. Any number of servers share a store; one leads, the others stand by.
//
//   - A commit is one transaction of etcd, or several if it is too large for one. It is on
//     the disks of a majority when it returns. It is fenced: it does nothing unless the
//     leader that sent it still leads, and the store is as its last commit left it.
//   - The lead of a server that was stopped, cut off or suspended is over before another
//     server can take the lead. An answer that needs no commit is valid if the Holds of
//     [store.Lead] returns nil after the answer was made.
//   - A store that lost a key, or that a later program made, is refused.
//
// # Why so
//
// The lead uses no lease of etcd. A member of etcd that was stopped and continued answers
// keep-alives from its memory, so a leader that was replaced long ago would go on to
// answer. Instead the leader rewrites its key every quarter of its TTL, in a transaction
// with the condition that the key still has the leader's nonce. The lead is valid for a
// TTL from the moment before the last such transaction was sent, by a clock that counts on
// while the machine is suspended. After that time the lead is over for good. A server that
// stands by takes the lead when it has itself watched the same revision of the key for the
// leader's TTL. The key has that TTL, because servers have different ones while an operator
// changes the setting.
//
// A commit has the conditions that the key has the leader's nonce, and that the key meta is
// as the last commit left it. A transaction may be delayed on its way for as long as a
// leader leads; without the condition on meta, a late copy could bring back a lease that
// was released meanwhile. And if an answer is lost, meta tells whether the transaction was
// applied.
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
