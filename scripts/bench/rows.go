package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// row is one thing to measure. It may have several results.
type row struct {
	name    string
	what    string
	measure func(context.Context, *world) ([]result, error)
}

// long are the rows that take minutes each, and are measured only when they are named.
var long = []row{
	{"million", "a million acquires and releases", measureMillion},
	{"aged-directory", "pairs of acquire and release after a million", agedOn(inDirectory)},
	{"aged-etcd", "pairs of acquire and release after a million on etcd", agedOn(onEtcd)},
	{"aged-postgres", "pairs of acquire and release after a million on PostgreSQL", agedOn(onPostgres)},
}

// rows is the table from top to bottom.
var rows = []row{
	{"exec", "a command under a lease: wall time, peak memory", measureExec},
	{"exec-tls", "a command under a lease, over TLS with a token", measureExecTLS},
	{"size", "the binary", measureSize},
	{"bash-pair", "acquire and release from a fresh bash", measurePair},
	{"handoff", "from the start of a release to the next waiter's answer", measureHandOff},
	{"handoff-exec", "from the end of a command to the start of the next that waited", measureHandOffExec},
	{"pairs-1", "durable pairs of acquire and release, 1 client", pairsOf(1)},
	{"pairs-16", "durable pairs of acquire and release, 16 clients", pairsOf(16)},
	{"pairs-64", "durable pairs of acquire and release, 64 clients", pairsOf(64)},
	{"pairs-etcd-1", "pairs of acquire and release on etcd, 1 client", pairsOn(onEtcd, 1)},
	{"pairs-etcd-16", "pairs of acquire and release on etcd, 16 clients", pairsOn(onEtcd, 16)},
	{"pairs-etcd-64", "pairs of acquire and release on etcd, 64 clients", pairsOn(onEtcd, 64)},
	{"pairs-etcd-takeover", "from the end of a leader to the first answer of the next", takeOverOn(onEtcd)},
	{"pairs-postgres-1", "pairs of acquire and release on PostgreSQL, 1 client", pairsOn(onPostgres, 1)},
	{"pairs-postgres-16", "pairs of acquire and release on PostgreSQL, 16 clients", pairsOn(onPostgres, 16)},
	{"pairs-postgres-64", "pairs of acquire and release on PostgreSQL, 64 clients", pairsOn(onPostgres, 64)},
	{"pairs-postgres-takeover", "from the end of a leader to the first answer of the next", takeOverOn(onPostgres)},
	{"waiters-10000", "10,000 blocked waiters", measureWaiters},
	{"waiters-100000", "100,000 waiters in a queue", measureManyWaiters},
	{"leases-100000", "100,000 leases held", measureManyLeases},
	{"crowded", "100,000 leases held, 5,000 waiters, leases that change hands", measureCrowded},
	{"stop", "a stop while 20,000 wait", measureStop},
	{"page", "the status page, and work beside ten that are open", measurePage},
	{"drain", "10,000 waiters drained through a pool of 50", measureDrain},
	{"keys", "many requests over a few keys; a limit under KILLs", measureKeys},
	{"weights", "jobs that ask for what they need, in a budget of memory", measureWeights},
	{"several", "jobs that need leases of several pools at once, simulated", measureSeveral},
	{"local", "start of --proxy local", measureLocal},
	{"shared", "one lease for many commands of a machine", measureShared},
	{"adapt", "a limit that finds itself, simulated", measureAdapt},
	{"herd-sim", "250 jobs on 50 leases of 20 minutes, simulated", measureHerdSimulated},
	{"herd-real", "250 jobs on 50 leases, real processes at 1:600", measureHerdReal},
}

// choose returns the row of a name, or those whose names begin with it.
func choose(name string) ([]row, error) {
	if name == "" {
		return rows, nil
	}
	all := slices.Concat(rows, long)
	var chosen []row
	for _, r := range all {
		if r.name == name {
			return []row{r}, nil
		}
		if strings.HasPrefix(r.name, name) {
			chosen = append(chosen, r)
		}
	}
	if chosen == nil {
		var names []string
		for _, r := range all {
			names = append(names, r.name)
		}
		return nil, fmt.Errorf("row %q: want one of %s", name, strings.Join(names, ", "))
	}
	return chosen, nil
}
