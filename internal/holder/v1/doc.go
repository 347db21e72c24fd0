// Package v1 makes lease proxies of version 1 look like ours, as far as that can be. Beside the wire
// itself (proxyclient) it is the only code of the client that knows such proxies.
//
// A version-1 proxy knows names and nothing else: it releases a name no matter who holds it, it
// never takes one back by itself, and an answer that was lost is lost. So for each name that this
// machine holds at such a proxy there is a small file in the state directory ([lockfile.Cell]),
// which gives the lease a generation, and is the lock under which it is released.
//
// It guarantees:
//
//   - A lease is released at most once, through whichever handle, copy, list or name, and only if
//     the name still means that lease on this machine. Of two processes that release it at the same
//     moment one asks the proxy, and the other waits for the result.
//   - A release whose outcome is not known is never sent again: the name may be somebody else's
//     lease by then. The file says so, [Adapter.Unsettled] lists it, and [Adapter.Forget] ends it.
//
// # States of a file
//
//	held         it was granted, or its release cannot have arrived. A release says releasing, and asks
//	             the proxy
//	releasing    locked: a process asks the proxy, and other releases wait for its result. Unlocked: that
//	             process was killed, so a release and recover make it unconfirmed
//	unconfirmed  no good answer came, or "no resource name" after one that was not good. It is never
//	             released again; recover lists it until --forget NAME
//	missing      "no resource name" at the first release: somebody else released it, or the proxy was
//	             restarted and forgot it, and the pool behind it may still count it. A release does
//	             nothing; recover lists it until --forget NAME
//	no file      the lease was given back, or this machine never had it. The release of a handle of this
//	             machine does nothing
//
// A record from another machine (the steps of a test share handles through a directory) and a bare
// name that this machine has no file of are released as deployed clients do it: once, no matter who
// holds the name.
package v1
