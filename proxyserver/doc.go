// Package proxyserver is the embedded lease proxy: HTTP in front of package
// pool, and the store under it.
//
// It guarantees, beyond what pool does:
//
//   - What it answered is durable. Every answer, a refusal or a read included,
//     waits for the commit of the state it was made from, so a KILL at any
//     instruction takes back nothing that anybody was told.
//   - After a restart the same leases are held by the same owners. The queue
//     forms again as clients come back with their request ids.
//   - A failed commit stops it: from then on it answers 503 and changes
//     nothing, because what it would say might not be so after a restart.
//   - It speaks version 1 of the wire byte for byte to whoever sends nothing
//     that version 1 does not have.
//   - With [Tokens], nobody who has none sees or changes anything, and nobody
//     renews or ends what was acquired with a token of another name.
//
// Without a data directory the state is in memory and ends with the process;
// then a commit costs nothing, and the rest holds all the same.
//
// What it serves may change while it runs: see [Server.SetPools] and
// [Server.SetTokens]. Where that comes from, and what TLS is spoken with, is its
// caller's.
//
// Two servers must not share a data directory; the second is refused. The clock
// that leases run on stands still while no server runs.
//
// A server is made by [New] and runs in [Server.Serve], on listeners that its
// caller opened:
//
//	srv, err := proxyserver.New(proxyserver.Options{
//		Pools: []pool.Config{{Type: "quota", Names: []string{"east", "west"}}},
//		Data:  "/var/lib/leases",
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
