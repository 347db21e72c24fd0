// Package proxyserver is the embedded lease proxy: HTTP in front of package
// pool, and the store under it.
//
// Beyond what package pool guarantees:
//
//   - Answers are durable. Every answer, refusals and reads included, waits for the
//     commit of the state it was made from. So a KILL at any instruction takes back
//     no answer.
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
//   - With tokens, a caller without one sees and changes nothing, and nobody
//     renews or ends a lease that was acquired with a token of another name.
//   - It has a status page for people. Without tokens the page is read-only, and is served
//     only under host names that the server knows. With tokens the page asks for one, and
//     the browser keeps a session instead. The page costs nothing while no browser shows
//     it, else at most two looks at the pools a second for each page that is shown.
//
// Without a store the state is in memory and ends with the process. Commits cost
// nothing then; the other guarantees hold unchanged.
//
// Pools and tokens may change while the server runs: see [Server.SetPools] and
// [Server.SetTokens]. Package config reads them from files. The caller opens the
// listeners, and wraps them in TLS.
//
// The lease clock stands still while no server runs. While the machine is suspended the
// clock goes on, as while the process is stopped.
//
// # The files, from the public down
//
//   - serve.go, election.go (the terms of a server that shares its store), server.go: the
//     life of a process, which package idle may end. errorlog.go: what net/http logs;
//   - routes.go: from the path of a call to what answers it;
//   - ui.go, uilive.go (changes of a page that is shown), uipages.go, uioperate.go (what an
//     operator does), uilogin.go, uianswer.go, uicookie.go: the status page. Package page
//     renders it, and package past has what happened in this term;
//   - acquire.go, request.go, renew.go, resize.go, release.go, pools.go, report.go: the
//     calls of those who need leases; break.go, remove.go, pause.go (/pools/resume too),
//     backup.go, operation.go (what these share): of operators; health.go (/readyz too),
//     metrics.go: of what watches the server. Package metrics counts;
//   - poolpages.go, params.go, body.go: what a call sends, and how much it gets; browser.go
//     (from which pages), caller.go (with which token): who may send it; answer.go: what it
//     gets;
//   - certificate.go, handler.go: the HTTP front. It lives as long as the process. Package
//     connlimit bounds its connections. session.go (who is signed in), live.go (who looks
//     at pages), warnings.go: what it keeps;
//   - wait.go (an acquire that waits), answersize.go (for how many leases), termend.go,
//     storewatch.go, standby.go (a term that refuses every call), term.go: a term, the time
//     in which this server decides. It is the pools with their clock and their alarm. It
//     begins from a store and can end. alarm.go; version1.go: leases that nobody renews;
//   - commit.go, waiters.go: decisions are committed in batches, and then delivered to those
//     who wait. Package eventlog writes them to the log;
//   - translate.go (from the pools to the wire), notleader.go, clock.go.
//
// # Use
//
// [New] makes a server, and [Server.Serve] runs it on listeners that the caller opened:
//
//	leases, err := bolt.Open("/var/lib/leases")
//	if err != nil {
//		return err
//	}
//	srv, err := proxyserver.New(proxyserver.Options{
//		Pools: []pool.Config{{Type: "quota", Names: []string{"east", "west"}}},
//		Store: leases,
//	})
//	if err != nil {
//		return err
//	}
//	l, err := net.Listen("tcp", "127.0.0.1:8080")
//	if err != nil {
//		return errors.Join(err, srv.Close())
//	}
//	return srv.Serve(ctx, l)
package proxyserver
