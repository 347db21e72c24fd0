package proxyserver

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/leaseapi"
)

// votes is an election that a test decides.
type votes struct {
	store.Store                // shared by all servers
	id          string         // id of the store, which may be read while a lead uses the store
	won         chan *fakeLead // leads for the servers that stand by
	closed      atomic.Bool    // Close was called
	fatal       chan error     // ends Gain
	other       store.Leader   // what Leader says
	loading     func()         // is called by Load of a lead; may be nil
	holding     func()         // is called by Holds of a lead; may be nil
}

func newVotes(t *testing.T) *votes {
	shared := openStore(t, t.TempDir())
	return &votes{Store: shared, id: shared.ID(), won: make(chan *fakeLead), fatal: make(chan error), other: store.Leader{URL: "http://other", Standby: 1}}
}

func (v *votes) ID() string { return v.id }

func (v *votes) Gain(ctx context.Context) (store.Lead, error) {
	select {
	case l := <-v.won:
		return l, nil
	case err := <-v.fatal:
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (v *votes) Leader() store.Leader { return v.other }

func (v *votes) Close() error {
	v.closed.Store(true)
	return v.Store.Close()
}

// An election supplies the store, and a server that stands by is never idle. A server that is
// told otherwise closes both.
func TestElectionAlone(t *testing.T) {
	for _, opts := range []Options{{Store: openStore(t, t.TempDir())}, {Idle: &Idle{}}} {
		v := newVotes(t)
		opts.Pools, opts.Election = []pool.Config{quota(1)}, v
		if _, err := New(opts); err == nil || !strings.Contains(err.Error(), "Election") {
			t.Errorf("New: %v", err)
		}
		if !v.closed.Load() {
			t.Error("the election is open")
		}
		if opts.Store != nil && opts.Store.Commit(store.Batch{}) == nil {
			t.Error("the store is open")
		}
	}
}

// win makes the server lead, and returns when the server leads.
func (v *votes) win() *fakeLead {
	l := &fakeLead{votes: v, over: make(chan struct{})}
	v.won <- l
	synctest.Wait()
	return l
}

// fakeLead is a lead that a test ends.
type fakeLead struct {
	*votes
	lapsed atomic.Bool
	closed atomic.Bool
	once   sync.Once
	over   chan struct{}
}

func (l *fakeLead) Holds() error {
	if l.holding != nil {
		l.holding()
	}
	return l.Check()
}

func (l *fakeLead) Over() <-chan struct{} { return l.over }

func (l *fakeLead) Close() error { l.closed.Store(true); return nil }

func (l *fakeLead) Check() error {
	if l.lapsed.Load() {
		return store.ErrNotLeader
	}
	return nil
}

func (l *fakeLead) Load() (pool.Snapshot, error) {
	if l.loading != nil {
		l.loading()
	}
	return l.Store.Load()
}

func (l *fakeLead) Commit(b store.Batch) error {
	if l.lapsed.Load() {
		return store.ErrNotLeader
	}
	return l.Store.Commit(b)
}

// lose ends the lead. The server notices only when it is told, as by end.
func (l *fakeLead) lose() { l.lapsed.Store(true) }

func (l *fakeLead) end() {
	l.lose()
	l.once.Do(func() { close(l.over) })
	synctest.Wait()
}

// withVotes starts a server in a bubble that stands by.
func withVotes(t *testing.T, f func(t *testing.T, p *peer, v *votes)) {
	synctest.Test(t, func(t *testing.T) {
		v := newVotes(t)
		p := start(t, Options{Pools: []pool.Config{quota(1)}, Election: v})
		synctest.Wait()
		f(t, p, v)
		if err := p.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
		if !v.closed.Load() {
			t.Error("the election is not closed")
		}
	})
}

// mustRefuse checks that a server says that it does not lead, who leads, and whether it stood
// by when the call came, and that it closes the connection.
func (p *peer) mustRefuse(what string, standby bool, r reply) {
	p.t.Helper()
	pr := decode[leaseapi.Problem](p.t, r, 503)
	if pr.Type != leaseapi.ProblemNotLeader || pr.Standby != standby || pr.Leader != "http://other" || r.header.Get("Retry-After") == "" || r.header.Get("Connection") != "close" {
		p.t.Errorf("%s: %d %s", what, r.status, r.body)
	}
}

// Each loss of the lead has one line in the log, however the server lost it: else the log
// would have the server lead twice in a row.
func TestLogOfALead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		v := newVotes(t)
		p := start(t, Options{Pools: []pool.Config{quota(1)}, Election: v, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for _, lose := range []func(l *fakeLead){
			(*fakeLead).end,
			func(l *fakeLead) { l.lose(); p.acquire("type=q") },
			func(l *fakeLead) { l.lose(); time.Sleep(2 * storeEvery) },
		} {
			lose(v.win())
			synctest.Wait()
		}
		v.win()
		p.stop()
		var said []string
		for line := range strings.Lines(log.String()) {
			if _, text, is := strings.Cut(line, `msg="this server leads`); is {
				said = append(said, strings.SplitN(text, `"`, 2)[0])
			}
		}
		if got := strings.Join(said, ","); got != ", no longer,, no longer,, no longer," {
			t.Errorf("%q\n%s", got, log.String())
		}
	})
}

// A server that is elected, and whose first commit fails, says why, and stands by.
func TestLogOfALeadThatNeverBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		v := newVotes(t)
		p := start(t, Options{Pools: []pool.Config{quota(1)}, Election: v, Log: slog.New(slog.NewTextHandler(&log, nil))})
		l := &fakeLead{votes: v, over: make(chan struct{})}
		l.lose()
		v.won <- l
		synctest.Wait()
		if said := log.String(); strings.Count(said, "cannot begin to lead") != 1 || !strings.Contains(said, store.ErrNotLeader.Error()) {
			t.Errorf("the log says %s", said)
		}
		if !l.closed.Load() {
			t.Error("the lead is not closed")
		}
		p.mustRefuse("acquire", true, p.acquire("type=q"))
		v.win()
		p.granted("type=q")
		p.stop()
	})
}

// A standby refuses all calls except those about itself. When it leads, it has the leases of
// the store. When it loses the lead, all waiters are told, and it can lead again.
func TestLeadsInTurns(t *testing.T) {
	withVotes(t, func(t *testing.T, p *peer, v *votes) {
		for _, path := range []string{"/pools", "/readyz", "/lease/requests/x"} {
			p.mustRefuse(path, true, p.do("GET", path, ""))
		}
		p.mustRefuse("acquire", true, p.acquire("type=q&request_id=a"))
		p.mustRefuse("release", true, p.release(`{"names":["q-0"]}`))
		health := decode[leaseapi.Health](t, p.do("GET", "/healthz", ""), 200)
		if l := health.Leader; l == nil || l.URL != "http://other" || l.Leads || !health.Durable {
			t.Errorf("health %+v", health)
		}
		if text := p.do("GET", "/metrics", "").body; !strings.Contains(text, "leasectl_leader 0\n") || !strings.Contains(text, "leasectl_standby 1\n") || !strings.Contains(text, "leasectl_durable 1\n") {
			t.Errorf("metrics %s", text)
		}

		first := v.win()
		held := p.granted("type=q&request_id=a&owner=me").Leases[0]
		waits := p.later(t.Context(), "type=q&request_id=w&wait=1h")
		time.Sleep(3 * time.Second) // the waiter is durable
		first.end()
		p.mustRefuse("the waiter", false, <-waits)
		p.mustRefuse("/pools", true, p.do("GET", "/pools", ""))
		if !first.closed.Load() {
			t.Error("a lead that is over is not closed")
		}

		v.win()
		if l := p.pools()[0].Leases; len(l) != 1 || l[0].Lease != held || l[0].Owner != "me" {
			t.Errorf("held are %+v, want %+v", l, held)
		}
		waits = p.later(t.Context(), "type=q&request_id=w&wait=1h")
		synctest.Wait()
		p.release(`{"request_ids":["a"]}`)
		if got := decode[leaseapi.AcquireReply](t, <-waits, 200).Leases[0]; got.Generation <= held.Generation {
			t.Errorf("generation %d after %d", got.Generation, held.Generation)
		}
		if text := p.do("GET", "/metrics", "").body; !strings.Contains(text, "leasectl_leader 1\n") {
			t.Errorf("metrics %s", text)
		}
	})
}

// An answer that waits for no commit is sent only if the server still leads after the answer
// was made: the server may have been stopped in between.
func TestAnswersOfALeadThatHasLapsed(t *testing.T) {
	withVotes(t, func(t *testing.T, p *peer, v *votes) {
		l := v.win()
		g := p.granted("type=q&request_id=a").Leases[0]
		renew := withLeases(g)
		p.do("POST", "/lease/renew", renew) // makes the lease firm; the next renewal changes nothing durable
		synctest.Wait()
		err := p.server.handler.term().do(func(*pool.Set, time.Duration) { l.lose() })
		if !errors.Is(err, store.ErrNotLeader) {
			t.Errorf("the lead lapsed while the answer was made: %v", err)
		}
		synctest.Wait()
		for what, call := range map[string]func() reply{
			"renew":   func() reply { return p.do("POST", "/lease/renew", renew) },
			"read":    func() reply { return p.do("GET", "/pools", "") },
			"refusal": func() reply { return p.acquire("type=q&wait=0s&request_id=b") },
		} {
			l := v.win()
			l.lose()
			p.mustRefuse(what, false, call())
			synctest.Wait()
		}
	})
}

// A commit proves only that the server led when the database did it. That may be before an answer
// was made that waits for it: the server may have been stopped before it heard of its commit.
func TestAnswersDuringACommitOfALeadThatHasLapsed(t *testing.T) {
	withVotes(t, func(t *testing.T, p *peer, v *votes) {
		l := v.win()
		p.granted("type=q&request_id=a")
		hold := v.Store.(*probe).hold
		hold <- struct{}{} // the answer of the next commit is late
		released, read := make(chan reply, 1), make(chan reply, 1)
		go func() { released <- p.release(`{"request_ids":["a"]}`) }()
		synctest.Wait()
		go func() { read <- p.do("GET", "/pools", "") }()
		synctest.Wait()
		if len(released)+len(read) > 0 {
			t.Error("it was answered before the commit")
		}
		l.lose()
		<-hold
		if r := <-released; r.status != 200 {
			t.Errorf("what was committed: %d %s", r.status, r.body)
		}
		p.mustRefuse("a read during the commit", false, <-read)
	})
}

// A commit that fails makes a leader stand by, and does not end the server.
func TestCommitOfALeadThatIsOver(t *testing.T) {
	withVotes(t, func(t *testing.T, p *peer, v *votes) {
		l := v.win()
		l.lose()
		p.mustRefuse("acquire", false, p.acquire("type=q&request_id=a"))
		synctest.Wait()
		v.win()
		p.granted("type=q&request_id=a")
	})
}

// Pools that are set while a server stands by are the pools of its next term.
func TestPoolsOfAStandby(t *testing.T) {
	withVotes(t, func(t *testing.T, p *peer, v *votes) {
		if err := p.server.SetPools([]pool.Config{quota(1), quota(1)}); err == nil {
			t.Error("two pools of one type were taken")
		}
		if err := p.server.SetPools([]pool.Config{quota(3)}); err != nil {
			t.Error(err)
		}
		v.win()
		if n := p.pools()[0].Capacity; n != 3 {
			t.Errorf("capacity %d, want 3", n)
		}
	})
}

// Pools that are set while a term begins are the pools of that term.
func TestPoolsOfATermThatBegins(t *testing.T) {
	v := newVotes(t)
	p := start(t, Options{Pools: []pool.Config{quota(1)}, Election: v})
	taken := make(chan error, 1)
	v.loading = func() {
		go func() { taken <- p.server.SetPools([]pool.Config{quota(3)}) }()
		select {
		case err := <-taken:
			taken <- err
		case <-time.After(50 * time.Millisecond): // SetPools waits for the term
		}
	}
	v.won <- &fakeLead{votes: v, over: make(chan struct{})}
	eventually(t, func() bool { return p.do("GET", "/pools", "").status == 200 })
	if err := <-taken; err != nil {
		t.Error(err)
	}
	if n := p.pools()[0].Capacity; n != 3 {
		t.Errorf("capacity %d, want 3", n)
	}
}

// An error of Gain ends the server, and so does a call that panics, whether the server leads
// or not.
func TestCannotLead(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		do   func(p *peer, v *votes)
		want error
	}{
		{"the election fails", func(_ *peer, v *votes) { v.fatal <- broken }, broken},
		{"a standby panics", func(p *peer, _ *votes) { p.server.handler.term().failCall("here") }, errPanicked},
		{"a leader panics", func(p *peer, v *votes) {
			v.win()
			p.server.handler.term().failCall("here")
		}, errPanicked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVotes(t)
				p := start(t, Options{Pools: []pool.Config{quota(1)}, Election: v})
				synctest.Wait()
				tt.do(p, v)
				if err := p.ended(); !errors.Is(err, tt.want) {
					t.Errorf("Serve: %v, want %v", err, tt.want)
				}
			})
		})
	}
}
