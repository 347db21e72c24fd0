// Package postgres keeps the state of lease servers in PostgreSQL, and decides which of them
// leads. Package replicated has the rules; this package is its database. A commit is durable when
// it returns, as far as synchronous_commit and synchronous_standby_names of the database say.
//
// # Tables
//
// They are in a schema of their own. The server that leads first makes them, under an advisory
// lock.
//
//	store     one row: the format of the tables; who leads (a nonce, the TTL, and the URL for
//	          clients), with a number that grows with each write; and meta, with the number of
//	          commits so far
//	records   records of package record: those of one request, or the ids that one commit ended
//	standby   the servers that stand by; only people need it
//
// # Why so
//
// All that fences a commit is in one row, and a commit is one statement, which each session
// prepares once: it updates that row if the nonce and the number of commits are as expected, and
// writes records only if it did. The statement goes out as one message of the simple query
// protocol. PostgreSQL has read a message as a whole before it begins, and ends the transaction
// before it reads the next. So a leader that stops in the middle holds no lock: there is no moment
// at which PostgreSQL waits for it. With the extended protocol there is one, before the message
// Sync, and no timeout of PostgreSQL 15 bounds it. Statements that wait for a lock, or hang
// otherwise, are bounded below the TTL.
//
// Values are hexadecimal digits and integers in the text of a statement, so nothing has to be
// quoted.
package postgres
