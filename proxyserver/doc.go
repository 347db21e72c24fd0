// Package proxyserver is the embedded lease proxy: HTTP in front of package
// pool, and the store under it.
//
// It guarantees, beyond what pool does:
//
//   - Its answers are durable. Every answer, a refusal or a read included, waits
//     for the commit of the state it was made from. So a KILL at any instruction
//     takes back no answer.
//   - After a restart the same leases are held by the same owners, and the queue is
//     in the same order; only requests that came in the last second may lose their
//     place. A time in which the server was stopped is treated as a restart.
//   - Of servers with an [store.Election] one leads, and the others refuse every
//     call and say who does. An answer that waits for no commit is given only if the
//     server leads after it was made. A leader whose commit fails stands by.
//   - Without one, a failed commit ends it, and so do a store that is gone and a call that
//     panics: it answers 503 to all who are there and changes nothing, since an
//     answer might not hold after a restart. Then Serve returns, with [ErrStore]
//     if it was the store.
//   - Answers, the time to read them, and connections are bounded. Without tokens
//     it refuses what a web page of another origin could send.
//   - It speaks version 1 of the wire byte for byte to clients that send nothing
//     newer.
//   - With tokens, a caller without one sees and changes nothing, and nobody
//     renews or ends a lease that was acquired with a token of another name.
//   - It has a status page for people. Without tokens the page only shows, and answers
//     only to names that the server knows; with tokens it asks for one, and the browser
//     keeps a session instead. While nobody looks it costs nothing, and else one look at
//     the pools a second for each page that is shown.
//
// Without a store the state is in memory and ends with the process. A commit costs
// nothing then, and the rest holds all the same.
//
// Pools and tokens may change while it runs: see [Server.SetPools] and
// [Server.SetTokens]. Package config reads them from files. The caller opens the
// listeners, and wraps them in TLS.
//
// The clock that leases run on stands still while no server runs. A machine that is
// suspended is one whose server was stopped: the clock goes on.
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
// A server is made by [New] and runs in [Server.Serve], on listeners that its
// caller opened:
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
