// Package etcd keeps the state of lease servers in etcd, and decides which of them
// leads. Any number of servers share a store; one leads, the others stand by.
//
//   - A commit is one transaction of etcd, and is on the disks of a majority when it
//     returns. It is fenced: it does nothing unless the leader that sent it leads
//     still, and the store is as its last commit left it.
//   - A leader that was stopped, cut off or suspended leads no longer before
//     another server can. An answer that needs no commit holds if
//     [store.Lead] says so after the answer was made.
//   - A store that lost a key, or that a later program made, is refused.
//
// # Why so
//
// There is no lease of etcd's in it: a member of etcd that was stopped answers
// keep-alives from its memory when it goes on, and so a leader that has long been
// replaced would go on to answer. Instead the leader writes its key anew every
// quarter of its TTL, by a transaction that demands that the key still has its
// nonce. The lead is valid for a TTL from the moment before the last such
// transaction was sent, by a clock that counts on while the machine is suspended.
// Once that time is over, the lead is over for good. A server that stands by takes
// the lead when it has itself watched the same revision of the key for that TTL, which
// the key says: while the setting is changed, one server has another than the next.
//
// A commit demands, beside the leader's nonce, that the key meta is as the last
// commit left it. A transaction may be delayed on its way for as long as a leader
// leads: a copy of it that arrives late would otherwise bring a lease back that was
// released meanwhile. And if an answer is lost, meta tells whether the transaction
// was applied.
//
// # Keys
//
//	PREFIX/leader            who leads: a nonce, the TTL, and the URL for clients
//	PREFIX/meta              the format, the id, the lease clock and the last generation
//	PREFIX/records/NUMBER    records of package record: those of one request, or the
//	                         ids that one commit ended
//	PREFIX/standby/NONCE     a server that stands by, for people
//
// # Inside
//
// From the top down: elector.go gains and keeps the lead, with upkeep.go (history and
// size of the database) and presence.go (who stands by); lead.go is the store of the
// leader; table.go, ended.go and bundle.go say which records are in which key;
// client.go tries again, and gateway.go speaks to etcd, in the words of messages.go,
// with url.go and tls.go below.
//
// etcd is spoken to over its JSON gateway (/v3/…, version 3.4 and later) with
// net/http: its gRPC client would cost every command 1.4 ms at its start.
package etcd
