// Package proxyclient is the client of a lease proxy. It guarantees that no
// failure of the network makes one acquire take two leases:
//
//   - A request is sent again only if no byte of it can have left, or if the
//     proxy is known to recognise its request id. If it stays unclear whether a
//     lease was granted, the error says so ([UnconfirmedError]).
//   - An acquire that is cancelled or times out takes its request back, so that
//     it leaves neither a waiter nor a grant behind; version 1 has no call for
//     that.
//   - A lease counts as lost no later than the proxy could give it to somebody
//     else, by a clock that also counts while the machine is suspended.
//
// # Two kinds of proxy
//
// A version-1 proxy knows names and nothing else. It has no request ids, so an
// acquire whose answer was lost is unconfirmed. It has no renewals, so leases
// last until they are released. It grants several leases in parts, so the client
// asks for them one by one, and holds a part for a minute at most. Its releases
// are by name: between two releases the name may have been granted to somebody
// else, who loses it to the second; no client of version 1 can tell. And it forgets
// a name before it asks the pool behind it, so a release that got an error, or no
// answer, and then "no resource name" is unconfirmed
// ([UnconfirmedReleaseError]).
//
// leasectl's own server has all of that. The client finds out by itself which
// kind it speaks to: from the first answer or, where it must know before, by
// asking for the state of its own request id, and then for the health.
// [Capabilities] is what it found.
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
//
// # Files
//
// From the public down: backup.go and operate.go; acquire.go, each.go, unwind.go, watch.go,
// acquisition.go and prepare.go; release.go, releasebare.go and releaseall.go; heartbeat.go
// and schedule.go; resize.go, renew.go, report.go and query.go; then exchange.go, which makes
// every call, with policy.go (may it be repeated?), failure.go, and patience.go (for how
// long?); then client.go, credentials.go, classify.go, grant.go, request.go, answer.go and
// errors.go; and at the bottom servers.go, url.go, sending.go, releasednames.go, text.go,
// capabilities.go and instant.go.
package proxyclient
