package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd/etcdtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated/leadtest"
)

// patience is how long a test waits for what must happen: CI is slow.
const patience = time.Minute

func allLost(string, []byte) fate { return lost }

// A copy of a transaction that was delayed on its way changes nothing when it
// arrives: a lease that was released meanwhile does not come back.
func TestDelayedCopy(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	w := newWire(t, c.Members[0].Host)
	e := elector(t, Options{URL: w.url("delayed-copy")})
	l := leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	before := len(w.sent())
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	copies := w.sent()[before:]
	leadtest.Commit(t, l, leadtest.Done("q-0"))
	for _, copied := range copies {
		resp, err := w.forward("/v3/kv/txn", copied)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	leadtest.Commit(t, l, leadtest.Granted("q-1", 2)) // the leader itself is not disturbed
	l.Close()
	if snap := leadtest.Load(t, leadtest.Gain(t, e, patience)); len(snap.Leases) != 1 || snap.Leases[0].Name != "q-1" {
		t.Errorf("held are %+v, want q-1", snap.Leases)
	}
}

// A transaction whose answer is lost is applied once, whether it had arrived or not.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	w := newWire(t, c.Members[0].Host)
	e := elector(t, Options{URL: w.url("lost-answers"), TTL: time.Minute}) // half of the answers that keep it are lost, too
	l := leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	random := rand.New(rand.NewPCG(1, 2))
	w.disturb(func(path string, body []byte) fate {
		if path == "/v3/kv/txn" && random.IntN(2) == 0 {
			return answered
		}
		return passes
	})
	const n = 50
	for i := range n {
		leadtest.Commit(t, l, leadtest.Granted(fmt.Sprint("q-", i), uint64(i+1)))
		if i%2 == 1 {
			leadtest.Commit(t, l, leadtest.Done(fmt.Sprint("q-", i)))
		}
	}
	w.disturb(nil)
	l.Close()
	if snap := leadtest.Load(t, leadtest.Gain(t, e, patience)); len(snap.Leases) != n/2 {
		t.Errorf("%d leases are held, want %d", len(snap.Leases), n/2)
	}
}

// The lead of a server that is cut off is over, for good, before another server leads. Its
// later commits are refused.
func TestCutOff(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	w := newWire(t, c.Members[0].Host)
	const ttl = 3 * time.Second // enough for a commit of a slow machine
	old := leadtest.Gain(t, elector(t, Options{URL: w.url("cut-off"), TTL: ttl}), patience)
	leadtest.Load(t, old)
	leadtest.Commit(t, old, leadtest.Granted("q-0", 1))
	w.disturb(allLost)
	failed := make(chan error, 1)
	go func() {
		failed <- old.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-1", 2)}, Generation: 2})
	}()
	next := leadtest.Gain(t, elector(t, Options{URL: c.URL("cut-off"), TTL: ttl}), patience)
	if err := old.Holds(); !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("the next leader took the lead too early; the old leader: %v", err)
	}
	select {
	case err := <-failed:
		if !errors.Is(err, store.ErrNotLeader) {
			t.Errorf("a commit of the old leader: %v", err)
		}
		<-old.Over()
	case <-time.After(patience):
		t.Fatal("the old leader goes on to try")
	}
	w.disturb(nil)
	if err := old.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-2", 3)}, Generation: 3}); !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("a commit of the old leader after its return: %v", err)
	}
	if snap := leadtest.Load(t, next); len(snap.Leases) != 1 {
		t.Errorf("held are %+v, want q-0", snap.Leases)
	}
}

// A server with a shorter TTL waits for as long as the leader that it watches may lead:
// operators change --leader-ttl on one server after the other.
func TestShorterTTLOfAStandby(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	w := newWire(t, c.Members[0].Host)
	old := leadtest.Gain(t, elector(t, Options{URL: w.url("shorter"), TTL: 4 * time.Second}), patience)
	w.disturb(allLost)
	leadtest.Gain(t, elector(t, Options{URL: c.URL("shorter"), TTL: time.Second}), patience)
	if err := old.Holds(); !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("the next leader took the lead too early; the old leader: %v", err)
	}
}

// A deposed leader that does not know it yet commits nothing, even if the store is as that
// leader left it.
func TestDeposed(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	old := leadtest.Gain(t, elector(t, Options{URL: c.URL("deposed")}), patience)
	leadtest.Load(t, old)
	// Another server writes the leader's key; the rest stays.
	other := elector(t, Options{URL: c.URL("deposed")})
	err := other.call(t.Context(), "/v3/kv/put", putRequest{Key: other.leaderKey(), Value: []byte(`{"nonce":"x"}`)}, &struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Commit(store.Batch{Generation: 1}); !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("commit: %v", err)
	}
	if err := old.Holds(); !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("it leads on: %v", err)
	}
}

// Only an answer to a transaction keeps a server in the lead: a member that was stopped gives
// other answers from its memory.
func TestOnlyTransactionsKeepTheLead(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	w := newWire(t, c.Members[0].Host)
	l := leadtest.Gain(t, elector(t, Options{URL: w.url("only-transactions"), TTL: time.Second}), patience)
	w.disturb(func(path string, _ []byte) fate {
		if path == "/v3/kv/txn" {
			return lost
		}
		return passes
	})
	select {
	case <-l.Over():
	case <-time.After(patience):
		t.Error("it leads on")
	}
	w.disturb(nil)
	if err := l.Holds(); !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("when etcd is there again: %v", err)
	}
}

// keptAt runs f with a TTL, and with longer ones until this machine is fast enough to
// keep a lead of that TTL.
func keptAt(t *testing.T, ttl time.Duration, f func(ttl time.Duration) (kept bool)) {
	t.Helper()
	for ; !f(ttl); ttl *= 2 {
		if ttl > patience || t.Failed() {
			t.Fatalf("a lead of %v is not kept", ttl)
		}
	}
}

// While the leader writes its key, nobody takes the lead.
func TestLeadIsKept(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	keptAt(t, 3*time.Second, func(ttl time.Duration) (kept bool) {
		prefix := fmt.Sprint("kept-", ttl)
		first := leadtest.Gain(t, elector(t, Options{URL: c.URL(prefix), TTL: ttl, Advertise: "http://first"}), patience)
		leadtest.Load(t, first)
		second := elector(t, Options{URL: c.URL(prefix), TTL: ttl})
		short, cancel := context.WithTimeout(t.Context(), ttl+time.Second)
		defer cancel()
		if l, err := second.Gain(short); err == nil && first.Holds() != nil {
			l.Close()
			return false
		} else if err == nil {
			t.Errorf("%v took the lead from one that writes its key", l)
		}
		if l := second.Leader(); l.URL != "http://first" || l.Since.IsZero() || l.Standby != 1 {
			t.Errorf("it knows of the leader %+v", l)
		}
		if second.ID() != first.ID() || first.ID() == "" {
			t.Errorf("the store has the ids %q and %q", first.ID(), second.ID())
		}
		return true
	})
}

// When the leader has given the lead up, the next one does not wait.
func TestHandOver(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	options := Options{URL: c.URL("hand-over"), TTL: time.Hour, Advertise: "http://first"}
	first, next := leadtest.Gain(t, elector(t, options), patience), elector(t, options)
	var resigned sync.WaitGroup
	resigned.Go(func() {
		for next.Leader().URL == "" && t.Context().Err() == nil { // until it stands by
			time.Sleep(time.Millisecond)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	})
	leadtest.Gain(t, next, patience) // within patience, not within an hour
	resigned.Wait()
}

// A server does not wait for the end of its own lead whose first answer was lost.
func TestLostTakeOver(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	w := newWire(t, c.Members[0].Host)
	e := elector(t, Options{URL: w.url("lost-take-over"), TTL: time.Hour})
	first := true
	w.disturb(func(path string, body []byte) fate {
		if first && bytes.Contains(body, []byte("requestPut")) {
			first = false
			return answered
		}
		return passes
	})
	leadtest.Load(t, leadtest.Gain(t, e, patience)) // within patience, not within an hour
}

// A server that ends without the lead leaves no leader's key behind, for whose end the others
// would wait: neither if it is stopped when etcd has made it the leader and has not answered
// yet, nor if it then refuses the store.
func TestUnusedLeadIsGivenUp(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	w := newWire(t, c.Members[0].Host)
	known := newPrefix()
	refuses := elector(t, Options{URL: w.url(known)})
	l := leadtest.Gain(t, refuses, patience)
	leadtest.Load(t, l)
	l.Close()
	for _, tt := range []struct {
		what string
		e    *Elector
		want error
	}{
		{"stopped", elector(t, Options{URL: w.url(newPrefix())}), context.Canceled},
		{"refuses", refuses, store.ErrGone},
	} {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		taken := func() bool {
			var there rangeResponse
			body, err := json.Marshal(rangeRequest{Key: tt.e.leaderKey()})
			if err != nil {
				t.Error(err)
			}
			resp, err := w.forward("/v3/kv/range", body)
			if err == nil {
				err = errors.Join(json.NewDecoder(resp.Body).Decode(&there), resp.Body.Close())
			}
			if err != nil {
				t.Error(err)
			}
			return len(there.KVs) > 0
		}
		first := true
		w.disturb(func(path string, body []byte) fate {
			if !first || !bytes.Contains(body, []byte("requestPut")) {
				return passes
			}
			first = false
			if tt.want == context.Canceled {
				return silent
			}
			lostMeta, err := json.Marshal(deleteRequest{Key: tt.e.metaKey()})
			if err != nil {
				t.Error(err)
			}
			if resp, err := w.forward("/v3/kv/deleterange", lostMeta); err != nil {
				t.Error(err)
			} else {
				resp.Body.Close()
			}
			return passes
		})
		ended := make(chan error, 1)
		go func() {
			_, err := tt.e.Gain(ctx)
			ended <- err
		}()
		if tt.want == context.Canceled {
			for !taken() && !t.Failed() {
				time.Sleep(time.Millisecond)
			}
			stop()
		}
		if err := <-ended; !errors.Is(err, tt.want) {
			t.Errorf("%s: gain: %v, want %v", tt.what, err, tt.want)
		}
		if taken() {
			t.Errorf("%s: the leader's key is left", tt.what)
		}
	}
}

// A standby that is stopped while it waits for an answer of etcd logs no trouble with etcd.
func TestStopIsNoTrouble(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	for what, waits := range map[string]func(path string, body []byte) bool{
		"looks":     func(path string, body []byte) bool { return true },
		"takes":     func(path string, body []byte) bool { return bytes.Contains(body, []byte("requestPut")) },
		"stands by": func(path string, body []byte) bool { return path == "/v3/kv/put" },
	} {
		w := newWire(t, c.Members[0].Host)
		prefix := newPrefix()
		if what == "stands by" {
			leadtest.Gain(t, elector(t, Options{URL: c.URL(prefix)}), patience)
		}
		ctx, stop := context.WithCancel(t.Context())
		w.disturb(func(path string, body []byte) fate {
			if !waits(path, body) {
				return passes
			}
			stop()
			return lost
		})
		var log bytes.Buffer
		e := elector(t, Options{URL: w.url(prefix), Log: slog.New(slog.NewTextHandler(&log, nil))})
		if _, err := e.Gain(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: gain: %v", what, err)
		}
		if log.Len() > 0 {
			t.Errorf("%s: the log says\n%s", what, &log)
		}
		w.disturb(nil)
	}
}

// A batch that is too large for one transaction is divided between the calls of the pools.
func TestDividedBetweenSteps(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	w := newWire(t, c.Members[0].Host)
	l := leadtest.Gain(t, elector(t, Options{URL: w.url("divided")}), patience)
	leadtest.Load(t, l)
	before := len(w.sent())
	var b store.Batch
	const calls, size = 100, 7
	for i := range calls {
		for j := range size {
			b.Changes = append(b.Changes, leadtest.Granted(fmt.Sprintf("q-%d-%d", i, j), uint64(1+size*i+j)))
		}
		b.Steps = append(b.Steps, len(b.Changes))
	}
	b.Generation = calls * size
	if err := l.Commit(b); err != nil {
		t.Fatal(err)
	}
	txns := 0
	for _, txn := range w.commits(t, before) {
		txns++
		if n := len(txn.Success); n > maxOperations || (n-1)%size != 0 {
			t.Errorf("a transaction of %d operations", n)
		}
	}
	if txns < calls*size/maxOperations || txns > calls*size/maxOperations+2 {
		t.Errorf("%d transactions", txns)
	}
	if snap := leadtest.Load(t, l); len(snap.Leases) != calls*size {
		t.Errorf("%d leases", len(snap.Leases))
	}
}

// An etcd whose operator allows fewer operations refuses a large commit. The server says so, and
// leaves the lead to another at once.
func TestTooManyOperations(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, 1, "--max-txn-ops", "64")
	l := leadtest.Gain(t, elector(t, Options{URL: c.URL("few")}), patience)
	leadtest.Load(t, l)
	var b store.Batch
	for i := range 100 {
		b.Changes = append(b.Changes, leadtest.Granted(fmt.Sprint("q-", i), uint64(i+1)))
	}
	err := l.Commit(b)
	if !errors.Is(err, store.ErrNotLeader) || !errors.Is(err, replicated.ErrRefused) || !strings.Contains(err.Error(), "too many operations") {
		t.Errorf("the commit: %v", err)
	}
	l.Close()
	leadtest.Load(t, leadtest.Gain(t, elector(t, Options{URL: c.URL("few")}), patience/2))
}

// However many ids the steps before have forgotten, a step that fits into a transaction of its
// own is not divided.
func TestForgottenIdsDivideNoStep(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	w := newWire(t, c.Members[0].Host)
	l := leadtest.Gain(t, elector(t, Options{URL: w.url("forgotten")}), patience)
	leadtest.Load(t, l)
	const size = 4
	for forgotten := maxOperations - 1 - 3*size; forgotten <= maxOperations-1+size; forgotten++ {
		var remembered, b store.Batch
		for i := range forgotten {
			ended := pool.Ended{ID: fmt.Sprint(forgotten, "-", i), Until: time.Duration(forgotten)}
			remembered.Changes = append(remembered.Changes, pool.Change{Kind: pool.Remembered, Ended: ended})
			b.Changes = append(b.Changes, pool.Change{Kind: pool.Forgotten, Ended: ended})
			b.Steps = append(b.Steps, len(b.Changes))
		}
		if err := l.Commit(remembered); err != nil {
			t.Fatal(err)
		}
		for i := range size {
			b.Changes = append(b.Changes, leadtest.Granted(fmt.Sprintf("q-%d-%d", forgotten, i), uint64(1+i)))
		}
		before := len(w.sent())
		if err := l.Commit(b); err != nil {
			t.Fatal(err)
		}
		for _, txn := range w.commits(t, before) {
			grants := 0
			for _, op := range txn.Success {
				if op.Put != nil && bytes.Contains(op.Put.Value, []byte("lq-")) {
					grants++
				}
			}
			if grants != 0 && grants != size {
				t.Errorf("after %d forgotten ids, a transaction has %d changes of a step of %d", forgotten, grants, size)
			}
		}
	}
}

// A store that lost a key, or that a later program made, is refused.
func TestRefused(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	prefix := newPrefix()
	e := elector(t, Options{URL: c.URL(prefix)})
	l := leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	l.Close()
	if err := e.call(t.Context(), "/v3/kv/deleterange", deleteRequest{Key: []byte(prefix + "/records/0000000000000000")}, &struct{}{}); err != nil {
		t.Fatal(err)
	}
	l = leadtest.Gain(t, e, patience)
	if _, err := l.Load(); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "it has 0 records, and should have 1") {
		t.Errorf("a key is lost: %v", err)
	}
	l.Close()
	if err := e.call(t.Context(), "/v3/kv/put", putRequest{Key: e.metaKey(), Value: []byte(`{"format":99}`)}, &struct{}{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Gain(t.Context()); !errors.Is(err, store.ErrOpen) || !strings.Contains(err.Error(), "format 99") {
		t.Errorf("a later format: %v", err)
	}
}

// A server that finds records without the key meta refuses the store and writes nothing: put
// back, meta fits the records.
func TestMetaIsLost(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	prefix := newPrefix()
	e := elector(t, Options{URL: c.URL(prefix)})
	l := leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	l.Close()
	s, err := e.Look(t.Context())
	if err != nil || s.Meta.Value == nil {
		t.Fatalf("meta is %q, %v", s.Meta.Value, err)
	}
	do := func(path string, in any) {
		t.Helper()
		if err := e.call(t.Context(), path, in, &struct{}{}); err != nil {
			t.Fatal(err)
		}
	}
	do("/v3/kv/deleterange", deleteRequest{Key: e.metaKey()})
	fresh := elector(t, Options{URL: c.URL(prefix)})
	l = leadtest.Gain(t, fresh, patience)
	if _, err := l.Load(); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "it has 1 records, and should have 0") {
		t.Errorf("meta is lost: %v", err)
	}
	if id := l.ID(); id != "" {
		t.Errorf("a refused store has the id %q", id)
	}
	l.Close()
	if s, err := e.Look(t.Context()); err != nil || s.Meta.Value != nil {
		t.Errorf("a refused store has the meta %q, %v", s.Meta.Value, err)
	}
	do("/v3/kv/put", putRequest{Key: e.metaKey(), Value: s.Meta.Value})
	if snap := leadtest.Load(t, leadtest.Gain(t, fresh, patience)); len(snap.Leases) != 1 {
		t.Errorf("held are %+v, want q-0", snap.Leases)
	}
}

// If a store is gone, as when etcd comes back with an empty disk, a server that knew it does
// not begin without leases: it says so and ends. It begins only when it is started anew.
func TestStoreIsGone(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	for _, what := range []struct{ name, put, want string }{
		{"empty", "", "etcd has nothing of it: restore etcd"},
		{"another", `{"format":1,"id":"another"}`, "another store is in its place"},
	} {
		prefix := newPrefix()
		e := elector(t, Options{URL: c.URL(prefix)})
		standby := elector(t, Options{URL: c.URL(prefix)})
		l := leadtest.Gain(t, e, patience)
		leadtest.Load(t, l)
		leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
		standing, leave := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			standby.Gain(standing)
			close(left)
		}()
		for standby.ID() == "" && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		leave()
		<-left
		all := []byte(prefix + "/")
		erase := map[string][]byte{"key": all, "range_end": rangeEnd(all)}
		if err := e.call(t.Context(), "/v3/kv/deleterange", erase, &struct{}{}); err != nil {
			t.Fatal(err)
		}
		if what.put != "" {
			if err := e.call(t.Context(), "/v3/kv/put", putRequest{Key: e.metaKey(), Value: []byte(what.put)}, &struct{}{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Commit(store.Batch{Generation: 1}); !errors.Is(err, store.ErrNotLeader) {
			t.Errorf("%s: a commit: %v", what.name, err)
		}
		for _, known := range []*Elector{e, standby} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if l, err := known.Gain(ctx); !errors.Is(err, store.ErrGone) || !strings.Contains(err.Error(), what.want) {
				t.Fatalf("%s: it gains %v, %v", what.name, l, err)
			}
			cancel()
		}
		leadtest.Gain(t, elector(t, Options{URL: c.URL(prefix)}), patience)
	}
}

// A leader that was deposed before it has read the store stands by, whatever it reads: the
// next leader has changed the store meanwhile.
func TestDeposedWhileItLoads(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	url := c.URL("deposed-while-it-loads")
	e := elector(t, Options{URL: url, TTL: time.Minute}) // so that it does not notice before it loads
	leadtest.Load(t, leadtest.Gain(t, e, patience))
	old := leadtest.Gain(t, e, patience)
	del := deleteRequest{Key: e.leaderKey()}
	if err := e.call(t.Context(), "/v3/kv/deleterange", del, &struct{}{}); err != nil {
		t.Fatal(err)
	}
	next := leadtest.Gain(t, elector(t, Options{URL: url}), patience)
	leadtest.Load(t, next)
	leadtest.Commit(t, next, leadtest.Granted("q-0", 1))
	if _, err := old.Load(); !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("load: %v", err)
	}
}

// An etcd without space answers reads, but then the log does not say that it answers again.
func TestNoSpaceIsToldOnce(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, 1)
	w := newWire(t, c.Members[0].Host)
	var log bytes.Buffer
	e := elector(t, Options{URL: w.url("no-space"), Log: slog.New(slog.NewTextHandler(&log, nil))})
	alarm := func(action string) {
		t.Helper()
		if err := e.call(t.Context(), "/v3/maintenance/alarm", map[string]string{"action": action, "alarm": "NOSPACE"}, &struct{}{}); err != nil {
			t.Fatal(err)
		}
	}
	alarm("ACTIVATE")
	gained := make(chan error, 1)
	go func() {
		l, err := e.Gain(t.Context())
		if err == nil {
			err = l.Close()
		}
		gained <- err
	}()
	for len(w.sent()) < 8 { // looks, and attempts to take the lead
		time.Sleep(time.Millisecond)
	}
	alarm("DEACTIVATE")
	if err := <-gained; err != nil {
		t.Fatal(err)
	}
	told := log.String()
	if n := strings.Count(told, "no space"); n != 1 || strings.Contains(told, "answers again") {
		t.Errorf("the log says no space %d times:\n%s", n, told)
	}
}
