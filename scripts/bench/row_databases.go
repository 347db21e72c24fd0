package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const (
	databaseRounds  = 11
	takeOverTTL     = 5 * time.Second // the default of --leader-ttl
	takeOverKilled  = takeOverTTL + 2*time.Second
	takeOverStopped = time.Second
	takeOverAtOnce  = 100 // leases in one acquire
)

// database is where servers share their leases in a row of the benchmark.
type database struct {
	name  string // as in "on etcd"
	data  string // how --data begins
	lacks func() string
	start func(context.Context, *world) (*started, error)
	known float64 // how far it misses the budget of its pairs: see limit.Known
}

// started is a database that runs.
type started struct {
	data string // --data of a server
	bare string // name of the bare peer on it
	url  string // for that
	stop func() error
}

var onEtcd = database{"etcd", "etcd://", func() string { return lacks("etcd") }, func(ctx context.Context, w *world) (*started, error) {
	e, err := w.etcd(ctx)
	if err != nil {
		return nil, err
	}
	return &started{data: "etcd://" + e.addr + "/leases", bare: "etcd", url: e.url, stop: e.stop}, nil
}, 0}

var onPostgres = database{"PostgreSQL", "postgres://", lacksPostgres, func(context.Context, *world) (*started, error) {
	c, err := startPostgres()
	if err != nil {
		return nil, err
	}
	stop := func() error { c.Remove(); return nil }
	return &started{data: c.URL(), bare: "postgres", url: c.URL(), stop: stop}, nil
}, 0.62}

// pairsOn measures how many acquires and releases a second a server on a database does for that
// many clients, beside the same number of writes without a lease proxy, on the same database.
func pairsOn(d database, clients int) func(context.Context, *world) ([]result, error) {
	return func(ctx context.Context, w *world) (_ []result, err error) {
		const fenced = "bare fenced transactions"
		r := result{What: fmt.Sprintf("acquire + release on %s, %d at once", d.name, clients), Unit: perSecond}
		if lack := d.lacks(); lack != "" {
			r.Ours, r.Peers = missing("leasectl --data "+d.data, lack), []measure{missing(fenced, lack)}
			return []result{r}, nil
		}
		db, err := d.start(ctx, w)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, db.stop()) }()
		ours, err := w.serve(ctx, "--pool", "many=64", "--data", db.data)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, ours.stop()) }()
		if err := leads(ctx, ours); err != nil {
			return nil, err
		}
		bare, err := w.bareAt(ctx, db.bare, db.url)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, bare.stop()) }()
		version1 := func(c *wire, _ int) error { return c.pair("many") }
		var rates, bareRates []float64
		for round := range databaseRounds + 1 {
			rate, err := throughput(ours.addr, clients, pairWindow, version1)
			if err != nil {
				return nil, err
			}
			bareRate, err := throughput(bare.addr, clients, pairWindow, version1)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				rates, bareRates = append(rates, rate), append(bareRates, bareRate)
			}
		}
		r.Ours = median("leasectl --data "+d.data, rates)
		r.Peers = []measure{median(fenced, bareRates)}
		r.budget(fenced, atLeast(0.8).missedTo(d.known))
		return []result{r}, nil
	}
}

// leads waits until a server leads.
func leads(ctx context.Context, s *server) error {
	return s.ready(ctx, func() (bool, error) {
		resp, err := http.Get(s.url + leaseapi.PathReady)
		if err != nil {
			return false, nil // not yet
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	})
}

// hold takes so many leases, and keeps them.
func (s *server) hold(leases int) error {
	c, err := dial(s.addr)
	if err != nil {
		return err
	}
	defer c.close()
	for left := leases; left > 0; left -= takeOverAtOnce {
		target := fmt.Sprintf("%s?type=many&count=%d", leaseapi.PathAcquire, min(left, takeOverAtOnce))
		if _, err := c.call(http.MethodPost, target, ""); err != nil {
			return err
		}
	}
	return nil
}

// takeOverOn measures the time from the end of a leader until another server answers.
func takeOverOn(d database) func(context.Context, *world) ([]result, error) {
	return func(ctx context.Context, w *world) ([]result, error) { return measureTakeOver(ctx, w, d) }
}

func measureTakeOver(ctx context.Context, w *world, d database) (_ []result, err error) {
	var all []result
	for _, how := range []struct {
		what   string
		signal syscall.Signal
		held   int
		limit  time.Duration
	}{
		{"killed", syscall.SIGKILL, 0, takeOverKilled},
		{"stopped by TERM", syscall.SIGTERM, 0, takeOverStopped},
		{"killed, with 100,000 leases held", syscall.SIGKILL, many - manySpare, takeOverKilled + manyRestart*time.Second},
		{"stopped by TERM, with 100,000 leases held", syscall.SIGTERM, many - manySpare, manyRestart * time.Second},
	} {
		r := result{What: fmt.Sprintf("first answer of the next leader on %s after one is %s", d.name, how.what), Unit: inSeconds}
		if lack := d.lacks(); lack != "" {
			r.Ours = missing("leasectl --data "+d.data, lack)
			all = append(all, r)
			continue
		}
		took, err := takeOver(ctx, w, d, how.signal, how.held)
		if err != nil {
			return nil, err
		}
		r.Ours = one("leasectl --data "+d.data, took.Seconds())
		r.Limit = atMost(how.limit.Seconds())
		all = append(all, r)
	}
	return all, nil
}

// takeOver ends the leader of two servers with a signal, and returns how long it takes until
// the other server grants a lease, beside those that are held.
func takeOver(ctx context.Context, w *world, d database, how syscall.Signal, held int) (took time.Duration, err error) {
	db, err := d.start(ctx, w)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.stop()) }()
	args := []string{"--pool", fmt.Sprintf("many=%d", held+manySpare), "--leader-ttl", takeOverTTL.String(), "--data", db.data}
	first, err := w.serve(ctx, args...)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(leads(ctx, first), first.hold(held)); err != nil {
		return 0, errors.Join(err, first.stop())
	}
	second, err := w.serve(ctx, args...)
	if err != nil {
		return 0, errors.Join(err, first.stop())
	}
	defer func() { err = errors.Join(err, second.stop()) }()
	time.Sleep(time.Second) // so that second has seen the leader
	begin := time.Now()
	first.cmd.Process.Signal(how)
	<-first.done
	for ctx.Err() == nil {
		c, err := dial(second.addr)
		if err != nil {
			return 0, err
		}
		err = c.pair("many")
		c.close()
		if err == nil {
			return time.Since(begin), nil
		}
		if !strings.Contains(err.Error(), "not-leader") {
			return 0, err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 0, ctx.Err()
}
