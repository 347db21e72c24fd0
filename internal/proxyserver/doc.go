// Package proxyserver is the embedded lease proxy: HTTP in front of package
// pool, and the store under it.
//
// Beyond what package pool guarantees:
//
//   - Answers are durable. Every answer, refusals and reads included, waits for the
//     commit of the state it was made from, apart from new waiters. So a KILL at any
//     instruction takes back no answer.
//   - After a restart the same leases are held by the same owners, and the queue is
//     in the same order. Only requests that arrived in the last second before may lose
//     their place. A time in which the process was stopped is treated as a restart.
//   - Of several servers with a [store.Election] one leads. The others refuse every
//     call and name the leader. An answer that waits for no commit is sent only if the
//     server still leads after making it. A leader whose commit fails becomes a standby.
//   - A call that panics ends the server. Without an Election, so does a failed commit or
//     a store that is gone. The server then answers 503 to every client and changes
//     nothing, since an answer might not hold after a restart. Then Serve returns, with
//     [ErrStore] if the store failed.
//   - Answers, the time to read them, and connections are bounded. Without tokens the
//     server refuses requests that a web page of another origin could send.
//   - Clients that send nothing newer get version 1 of the wire, byte for byte.
//   - With tokens, a caller without one sees and changes nothing, nobody renews or ends a
//     lease of another caller, and who may use some pools knows nothing of the others.
//   - It has a status page for people. Without tokens the page is read-only, and is served
//     only under host names that the server knows. With tokens the page asks for one, and
//     the browser keeps a session instead. The page costs nothing while no browser shows
//     it, else at most two looks at the pools a second for each page that is shown.
//
// Without a store the state is in memory and ends with the process. Commits cost
// nothing then; the other guarantees hold unchanged.
//
// Pools and who may ask may change while the server runs: see [Server.SetPools] and
// [Server.SetAuth]. Package config reads them from files. The caller opens the
// listeners, and wraps them in TLS.
//
// The lease clock stands still while no server runs. While the machine is suspended the
// clock goes on, as while the process is stopped.
package proxyserver
