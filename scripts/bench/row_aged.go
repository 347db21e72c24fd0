package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd"
	"github.com/leasectl/leasectl/internal/proxyserver/store/postgres"
)

const (
	// agedTogether is how many requests end in one commit while a store is made old. A database keeps
	// those of a commit in one record, so the store has as many records as one that was used by 50
	// clients. A directory has a record for each.
	agedTogether = 50
	// agedSpare is how many ids an aged store lacks at first: the pairs of the first rounds forget none.
	agedSpare = 60_000
	// Many short windows in turns: other load on the machine meets both stores.
	agedRounds = 61
	agedWindow = 100 * time.Millisecond
	agedPart   = 0.9 // of the pairs a second on an empty store
)

// agedOn compares a server that remembers as many ended requests as a server can with one that
// remembers none.
func agedOn(d database) func(context.Context, *world) ([]result, error) {
	return func(ctx context.Context, w *world) ([]result, error) {
		if lack := d.lacks(); lack != "" {
			return []result{{What: "acquire + release on an aged " + d.name, Unit: perSecond, Ours: missing("leasectl --data "+d.data, lack)}}, nil
		}
		return w.aged(ctx, d)
	}
}

// inDirectory is the store of a single server.
var inDirectory = database{"directory", "DIR", func() string { return "" }, func(_ context.Context, w *world) (*started, error) {
	return &started{data: w.fresh("data"), stop: func() error { return nil }}, nil
}, 0}

// aged measures on one store. First no commit forgets an id, then each commit that ends an id
// forgets the oldest.
func (w *world) aged(ctx context.Context, d database) (_ []result, err error) {
	old, err := d.start(ctx, w)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, old.stop()) }()
	empty, err := d.start(ctx, w)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, empty.stop()) }()
	var results []result
	for _, phase := range []struct {
		what string
		ids  int // that the old store has at the beginning
	}{
		{"%d ended ids", pool.MaxEnded - agedSpare},
		{"%d ended ids, of which each pair forgets one", pool.MaxEnded},
	} {
		if err := age(ctx, old.data, phase.ids); err != nil {
			return nil, err
		}
		rates, err := w.pairsInTurns(ctx, old.data, empty.data)
		if err != nil {
			return nil, err
		}
		r := resultOf(fmt.Sprintf("acquire + release on %s, 1 client, "+phase.what, d.name, phase.ids), perSecond,
			[]measure{median("leasectl --data "+d.data, rates[0]), median("an empty store", rates[1])})
		r.budget("an empty store", atLeast(agedPart))
		results = append(results, r)
	}
	return results, nil
}

// pairsInTurns measures the pairs a second of a server on each of the stores.
func (w *world) pairsInTurns(ctx context.Context, data ...string) (rates [][]float64, err error) {
	rates = make([][]float64, len(data))
	var addrs []string
	for _, d := range data {
		s, err := w.serve(ctx, "--pool", "many=64", "--data", d)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		if err := leads(ctx, s); err != nil {
			return nil, err
		}
		addrs = append(addrs, s.addr)
	}
	for round := range agedRounds + 1 {
		for _, i := range rand.Perm(len(addrs)) {
			rate, err := throughput(addrs[i], 1, agedWindow, func(c *wire, _ int) error { return c.pairOf(agedSerial.Add(1)) })
			if err != nil {
				return nil, err
			}
			if round > 0 {
				rates[i] = append(rates[i], rate)
			}
		}
	}
	return rates, nil
}

// agedSerial numbers the requests of this row.
var agedSerial atomic.Int64

// age makes a store remember so many ended requests, if it has fewer.
func age(ctx context.Context, data string, ids int) (err error) {
	s, err := openStore(ctx, data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	snap, err := s.Load()
	if err != nil {
		return err
	}
	set, err := pool.New([]pool.Config{{Type: "many", Names: pool.Numbered("many", drainCapacity)}}, snap, pool.PriorityAging)
	if err != nil {
		return err
	}
	b := store.Batch{Clock: snap.Clock, Generation: snap.Generation}
	for n := len(snap.Ended); n < ids; {
		for range min(agedTogether, ids-n) {
			n++
			b.Clock += time.Microsecond // so that they end one after the other
			id := fmt.Sprint("aged-request-", n)
			leases, err := set.Acquire(b.Clock, pool.Request{ID: id, Type: "many", Owner: "job-" + id, TTL: time.Hour})
			if err == nil && len(leases) != 1 {
				err = fmt.Errorf("request %d: %d leases were granted", n, len(leases))
			}
			if err != nil {
				return err
			}
			b.Generation = leases[0].Generation
			set.Release(b.Clock, pool.Ref{Name: leases[0].Name, Generation: b.Generation}, 0)
		}
		b.Changes = set.Drain()
		if err := errors.Join(ctx.Err(), s.Commit(b)); err != nil {
			return err
		}
	}
	return nil
}

// leadOf is a store of several servers, for as long as this process leads.
type leadOf struct {
	store.Lead
	election store.Election
}

func (l leadOf) Close() error { return errors.Join(l.Lead.Close(), l.election.Close()) }

// openStore opens the store that --data of a server would name.
func openStore(ctx context.Context, data string) (store.Store, error) {
	var election store.Election
	var err error
	switch {
	case postgres.IsURL(data):
		election, err = postgres.Open(postgres.Options{URL: data})
	case etcd.IsURL(data):
		election, err = etcd.Open(etcd.Options{URL: data})
	default:
		if err := os.MkdirAll(data, 0o700); err != nil {
			return nil, err
		}
		return bolt.Open(data)
	}
	if err != nil {
		return nil, err
	}
	lead, err := election.Gain(ctx)
	if err != nil {
		return nil, errors.Join(err, election.Close())
	}
	return leadOf{lead, election}, nil
}
