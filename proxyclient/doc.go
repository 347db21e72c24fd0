// Package proxyclient is the client of a lease proxy. It guarantees that no
// failure of the network makes one acquire take two leases:
//
//   - A request is sent again only if no byte of it can have left, or if the
//     proxy is known to recognise its request id. Whatever stays unclear is
//     said, as an [UnconfirmedError], and never guessed.
//   - What a call does not hand to its caller it gives back: an acquire that
//     is cancelled or times out leaves neither a waiter nor a grant behind, on
//     a proxy that can be told so.
//   - A lease counts as lost no later than the proxy could give it to somebody
//     else, by a clock that also counts while the machine is suspended.
//
// # Two kinds of proxy
//
// A version-1 proxy knows names and nothing else. It has no request ids, so an
// acquire whose answer was lost is unconfirmed; no renewals, so leases last
// until they are released; and no counts it could be trusted with, so several
// leases are asked for one by one and held together for a minute at most. Its
// releases are by name: releasing twice is harmless only as long as one
// [Client] does both, since only the client knows that it was the one who
// released before. Between the two the name may have been granted to somebody
// else, whom the second release would rob; no client of version 1 can tell.
//
// leasectl's own server has all of that. The client finds out by itself which
// kind it speaks to, from the first answer or, where it must know before, by
// asking for the state of its own request id.
//
// # Use
//
//	c, err := proxyclient.New(proxyclient.Options{URL: "http://127.0.0.1:8080"})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	g, err := c.Acquire(ctx, proxyclient.Request{Type: "aws-install", Count: 1, Owner: "job-1", Wait: time.Hour})
//	if err != nil {
//		return err
//	}
//	defer c.Release(context.WithoutCancel(ctx), proxyclient.Releasing(g.Leases, "job-1"))
//
// A grant of leasectl's server ends after 30 seconds unless it is confirmed by
// a first renewal: see [Client.Renew], or [Heartbeat] for the loop.
//
// Every call blocks until it is settled or its context ends. Calls go through
// http_proxy, https_proxy and no_proxy, and follow no redirects.
package proxyclient
