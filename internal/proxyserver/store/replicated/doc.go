// Package replicated lets any number of servers share a store in a database. One leads, the
// others stand by. The database is a [Database], such as that of package etcd.
//
//   - A commit is one transaction of the database, or several if it is too large for one. It is
//     durable when it returns. It is fenced: it does nothing unless the leader that sent it still
//     leads, and the store is as its last commit left it.
//   - The lead of a server that was stopped, cut off or suspended is over before another
//     server can take the lead. An answer that needs no commit, or only one that began
//     before it, is valid if the Holds of [store.Lead] returns nil after the answer was made.
//   - A store that lost a record, or that a later program made, is refused. A server that knows of
//     durable commits that the database no longer has does not lead: it returns [store.ErrLost].
//
// # Why so
//
// The lead uses no lease or lock of the database. A member of etcd that was stopped and continued
// answers keep-alives from its memory, and a lock of PostgreSQL ends with its connection, which a
// leader may notice much later; so a leader that was replaced long ago would go on to answer.
// Instead the leader rewrites its entry every quarter of its TTL, in a transaction with the
// condition that the entry still has the leader's nonce. The lead is valid for a TTL from the
// moment before the last such transaction was sent, by a clock that counts on while the machine is
// suspended. After that time the lead is over for good. A server that stands by takes the lead when
// it has itself watched the same version of the entry for the leader's TTL. The entry has that
// TTL, because servers have different ones while an operator changes the setting.
//
// A commit has the conditions that the leader's entry has the leader's nonce, and that meta is
// as the last commit left it. A transaction may be delayed on its way for as long as a
// leader leads; without the condition on meta, a late copy could bring back a lease that
// was released meanwhile. And if an answer is lost, meta tells whether the transaction was
// carried out.
//
// What a read shows may not be durable yet: PostgreSQL shows a commit whose wait for a standby was
// broken off. So a commit that was found carried out counts only after a further write, which is
// durable only if all before it are. Nor does a server that stands by take a commit that it has read
// for one that can be lost, until it has written its own entry.
//
// The records of package record are many and small. Those of one request, and the ids that one
// commit ends, are one record of the database.
//
// Package unsteady is a database in memory that does to its servers whatever a database, a network
// and a machine may do. The tests run thousands of schedules on it.
package replicated
