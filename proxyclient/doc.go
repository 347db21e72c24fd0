// Package proxyclient is the client of a lease proxy. It guarantees that no
// failure of the network makes one acquire take two leases:
//
//   - A request is sent again only if no byte of it can have left, or if the
//     proxy is known to recognise its request id. If it stays unclear whether a
//     lease was granted, the error says so ([UnconfirmedError]).
//   - An acquire that is cancelled or times out takes its request back, so that
//     it leaves neither a waiter nor a grant behind. Version 1 has no call for
//     that.
//   - A call takes no answer to another request for its own, as on a connection of
//     which something on the way repeats bytes.
//   - A lease counts as lost no later than the proxy can grant it to somebody
//     else, by a clock that also counts while the machine is suspended.
//
// # Two kinds of proxy
//
// A version-1 proxy knows names and nothing else. It has no request ids, so an
// acquire whose answer was lost is unconfirmed. It has no renewals, so leases
// last until they are released. It grants several leases in parts, so the client
// asks for them one by one, and holds a part for a minute at most.
//
// A version-1 release names no owner and no generation. If a name is released twice
// and was granted again in between, the second release ends the new holder's lease,
// and no client of version 1 can detect this. The proxy also forgets a name before it
// asks the pool behind it. So if a first release got an error or no answer, and
// the next one gets "no resource name", the release is unconfirmed
// ([UnconfirmedReleaseError]).
//
// leasectl's own server has request ids, renewals and generations, and grants several
// leases together. The client detects the kind of its proxy: from the first answer or,
// if it must know earlier, by asking for the state of its own request id, and then for
// the health. [Capabilities] holds the result.
//
// # Use
//
// [Client.Hold] is the whole life of a lease around a function. Its parts are [Client.Acquire],
// [Heartbeat] and [Client.Release]: a grant of leasectl's server ends after 30 seconds unless a first
// renewal confirms it.
//
// Every call blocks until it has a result or its context ends. Calls honour
// http_proxy, https_proxy and no_proxy, and follow no redirects.
//
// # What is stable
//
// Within a major version of the module, what this package and leaseapi export stays, and
// goes on to mean the same: identifiers, fields, and which error is in the chain of which
// failure. New fields and methods may come, so write the names of fields in literals. The
// texts of errors are for people, and may change. The package speaks every
// wire of a release for the life of its major version and of the next one, and version 1
// without end. No other package of the module promises anything, except trap.
package proxyclient
