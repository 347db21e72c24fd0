package etcd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd/etcdtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated/leadtest"
)

func TestMain(m *testing.M) { os.Exit(etcdtest.Run(m)) }

// wire forwards requests from a server to etcd. A test can disturb it.
type wire struct {
	*httptest.Server
	to string // HOST:PORT of etcd

	mu   sync.Mutex
	rule func(path string, body []byte) fate // nil: everything passes
	txns [][]byte                            // that were forwarded
}

// fate is what happens to a request.
type fate int

const (
	passes   fate = iota
	lost          // it does not arrive, and nobody answers
	answered      // it arrives, and its answer is lost
	silent        // it arrives, and nobody answers
)

func newWire(t testing.TB, to string) *wire {
	w := &wire{to: to}
	w.Server = httptest.NewServer(w)
	t.Cleanup(func() {
		w.CloseClientConnections()
		w.Close()
	})
	return w
}

func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.mu.Lock()
	f := passes
	if w.rule != nil {
		f = w.rule(r.URL.Path, body)
	}
	if r.URL.Path == "/v3/kv/txn" && f != lost {
		w.txns = append(w.txns, body)
	}
	w.mu.Unlock()
	if f == lost {
		<-r.Context().Done()
		return
	}
	resp, err := w.forward(r.URL.Path, body)
	if err != nil || f == answered {
		panic(http.ErrAbortHandler) // the connection breaks
	}
	defer resp.Body.Close()
	if f == silent {
		<-r.Context().Done()
		return
	}
	rw.WriteHeader(resp.StatusCode)
	io.Copy(rw, resp.Body)
}

func (w *wire) forward(path string, body []byte) (*http.Response, error) {
	return http.Post("http://"+w.to+path, "application/json", bytes.NewReader(body))
}

// disturb makes rule decide the fate of requests; nil: all pass.
func (w *wire) disturb(rule func(path string, body []byte) fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rule = rule
}

// sent returns the transactions that were forwarded so far.
func (w *wire) sent() [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.txns)
}

// commits returns the commits among the forwarded transactions, without the first before ones.
func (w *wire) commits(t testing.TB, before int) (commits []txnRequest) {
	t.Helper()
	for _, body := range w.sent()[before:] {
		var txn txnRequest
		if err := json.Unmarshal(body, &txn); err != nil {
			t.Fatal(err)
		}
		if len(txn.Compare) == 2 { // the others keep the leader's key
			commits = append(commits, txn)
		}
	}
	return commits
}

// newPrefix returns a prefix under which there is no store yet, however often a test
// runs with the same etcd.
func newPrefix() string { return fmt.Sprintf("new-%x", rand.Uint64()) }

func (w *wire) url(prefix string) string {
	return "etcd://" + strings.TrimPrefix(w.URL, "http://") + "/" + prefix
}

// elector opens an elector for the time of t.
func elector(t testing.TB, o Options) *Elector {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	}
	o.TTL = cmp.Or(o.TTL, patience) // a call may take so long, too
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// sorted makes snapshots comparable: their order means nothing, and only the end of
// a lease that is broken or extended is durable.
func sorted(s pool.Snapshot) pool.Snapshot {
	leases := slices.Clone(s.Leases)
	for i := range leases {
		if leases[i].Broken == "" && !leases[i].Extended {
			leases[i].Expires = 0
		}
	}
	slices.SortFunc(leases, func(a, b pool.Lease) int { return cmp.Compare(a.Generation, b.Generation) })
	s.Leases = leases
	s.Ended = slices.SortedFunc(slices.Values(s.Ended), func(a, b pool.Ended) int { return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.ID, b.ID)) })
	s.Waiters = slices.SortedFunc(slices.Values(s.Waiters), func(a, b pool.Waiter) int { return cmp.Compare(a.Arrival, b.Arrival) })
	s.Locked = slices.SortedFunc(slices.Values(s.Locked), func(a, b pool.Locked) int { return cmp.Compare(a.Name, b.Name) })
	s.Reserved = slices.SortedFunc(slices.Values(s.Reserved), func(a, b pool.Reservation) int { return cmp.Compare(a.Name, b.Name) })
	s.Reports = slices.SortedFunc(slices.Values(s.Reports), func(a, b pool.Reports) int { return cmp.Compare(a.Type, b.Type) })
	return s
}

// The next leader loads what the pools did, in batches of any size.
func TestCommitAndLoad(t *testing.T) {
	t.Parallel()
	c := etcdtest.Shared(t)
	e := elector(t, Options{URL: c.URL(newPrefix())})
	l := leadtest.Gain(t, e, patience)
	if snap := leadtest.Load(t, l); !reflect.DeepEqual(snap, pool.Snapshot{}) {
		t.Errorf("a new store holds %+v", snap)
	}
	id := l.ID()
	configs := []pool.Config{
		{Type: "a", Names: pool.Numbered("a", 300)},
		{Type: "b", Names: pool.Numbered("b", 5), LockDelay: time.Second, Pace: time.Second},
		{Type: "c", Units: 9},
	}
	overtaken := 0
	set, err := pool.New(configs, pool.Snapshot{}, pool.PriorityAging)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Duration(0)
	for round := range 40 {
		var b store.Batch
		for step := range random.IntN(60) {
			now += time.Duration(random.IntN(3000)) * time.Millisecond
			set.Advance(now)
			randomCall(set, random, now, fmt.Sprintf("%d-%d", round, step))
			if round%3 == 0 && step == 0 {
				now += 7 * time.Minute // leases end, and later their ids are forgotten, some of a batch
			}
			for _, c := range set.Drain() {
				if b.Changes = append(b.Changes, c); c.Kind == pool.Overtaken {
					overtaken++
				}
			}
			b.Steps = append(b.Steps, len(b.Changes))
		}
		snap := set.Snapshot()
		b.Clock, b.Generation = snap.Clock, snap.Generation
		if err := l.Commit(b); err != nil {
			t.Fatal(err)
		}
		if round%10 != 9 {
			continue
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		l = leadtest.Gain(t, e, patience)
		if got, want := sorted(leadtest.Load(t, l)), sorted(snap); !reflect.DeepEqual(got, want) {
			t.Fatalf("loaded\n%+v, want\n%+v", got, want)
		}
		if l.ID() != id || id == "" {
			t.Errorf("the store has the id %q, and had %q", l.ID(), id)
		}
	}
	if overtaken == 0 {
		t.Error("nobody was overtaken")
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Errorf("close, twice: %v", err)
	}
}

// randomCall makes one call of a set.
func randomCall(set *pool.Set, random *rand.Rand, now time.Duration, id string) {
	pick := func() (pool.Lease, bool) {
		leases := set.Snapshot().Leases
		if len(leases) == 0 {
			return pool.Lease{}, false
		}
		return leases[random.IntN(len(leases))], true
	}
	l, ok := pick()
	ref := pool.Ref{Name: l.Name, Generation: l.Generation}
	ended := set.Snapshot().Ended
	switch n := random.IntN(11); {
	case n > 9 && len(ended) > 0: // a report that comes late
		outcome := pool.OutcomeOK
		if random.IntN(2) == 0 {
			outcome = pool.OutcomeThrottled
		}
		set.Report(now, pool.Report{RequestID: ended[random.IntN(len(ended))].ID, Outcome: outcome})
	case n < 4 || !ok:
		ask := pool.Ask{Count: 1 + random.IntN(4), Priority: random.IntN(5) - 2}
		switch random.IntN(6) {
		case 0, 1:
			ask.Count = 1 + random.IntN(9)
		case 2:
			ask.Count, ask.Name = 1, fmt.Sprint("b-", random.IntN(5))
		case 3:
			name := fmt.Sprint("b-", random.IntN(5))
			if _, err := set.GiveBack(now, name, pool.Act{}); err != nil {
				set.Reserve(now, name, "o\x00alice", time.Duration(random.IntN(60))*time.Second, pool.Act{Reason: "why"})
			}
		}
		if random.IntN(4) == 0 {
			ask.Also = string(rune('a' + random.IntN(3))) // the same type twice is refused
		}
		set.Acquire(now, pool.Request{ID: id, Type: string(rune('a' + random.IntN(3))), Ask: ask, Owner: "o\x00" + id, TTL: time.Minute})
		if waiters := set.Snapshot().Waiters; len(waiters) > 0 && random.IntN(3) == 0 {
			set.Move(now, waiters[random.IntN(len(waiters))].ID, random.IntN(201)-100, pool.Act{Reason: "why"})
		}
	case n < 6:
		set.Renew(now, ref, time.Duration(1+random.IntN(5))*time.Minute)
	case n < 7:
		set.Release(now, ref, 0)
	case n < 8:
		set.Release(now, ref, time.Hour)
	case n < 9:
		set.Break(now, l.Name, pool.Act{Reason: "why"}, random.IntN(2) == 0)
	default:
		set.Cancel(now, l.RequestID)
	}
}
