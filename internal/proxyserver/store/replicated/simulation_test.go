package replicated_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated/leadtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated/unsteady"
)

var (
	simulations    = flag.Int("simulations", 2000, "schedules of TestSimulation; a tenth of them with -short")
	simulationSeed = flag.Uint64("simulation-seed", 0, "runs only this schedule of TestSimulation")
)

// TestSimulation runs three servers that share a database, whose calls are delayed, lost, repeated
// and answered late. Servers are stopped, one or all, for longer than the TTL, or started anew;
// others are cut off, hear no answer, or resign. Meanwhile clients ask them. Each schedule has a
// seed:
//
//	go test ./internal/proxyserver/store/replicated -run TestSimulation -simulations 100000
//
// It checks that what clients saw is what one server would have answered that never failed and
// did the calls one after the other; and that, once everything is healed, the servers serve again
// within four TTLs.
func TestSimulation(t *testing.T) {
	t.Parallel()
	schedules := unsteady.Schedules{
		Count: *simulations, Seed: *simulationSeed, Parallel: 2,
		Again: "go test ./internal/proxyserver/store/replicated -run TestSimulation -simulation-seed",
	}
	schedules.Run(t, func(t *testing.T, schedule *unsteady.Schedule) {
		var ops []porcupine.Operation
		synctest.Test(t, func(t *testing.T) {
			s := &simulation{t: t, schedule: schedule, random: rand.New(rand.NewPCG(schedule.Seed, 1)), db: unsteady.New(), begun: time.Now()}
			s.run()
			ops = s.ops
		})
		unsteady.CheckHistory(t, cellModel, ops)
	})
}

// simulation is a run of a schedule.
type simulation struct {
	t        *testing.T
	schedule *unsteady.Schedule
	random   *rand.Rand // of the schedule; each server and client has its own
	db       *unsteady.Database
	servers  [3]*simulated // run changes them, with mu held
	begun    time.Time
	avoid    atomic.Int64 // the server that writers do not ask, so that it has nothing to commit; -1: they ask all

	mu  sync.Mutex
	ops []porcupine.Operation
}

// simulated is one of the servers: the cells of its last term, and the calls that wait for it.
type simulated struct {
	*unsteady.Server
	*replicated.Elector
	calls   chan *cellCall
	stop    context.CancelFunc
	running sync.WaitGroup
}

// cells is the state that servers keep: the generation of the lease of each name; 0: it is free.
type cells [3]uint64

// cellCall is a call of a client: to set a cell if its value is old, or to read all.
type cellCall struct {
	cell     int // -1: read
	old, new uint64
	answer   chan cellAnswer // has room for one
}

// cellAnswer is the answer to a call. The zero cellAnswer is none: the call may have been done.
type cellAnswer struct {
	refused bool  // the call was not done, and will not be
	known   bool  // the rest says what was done
	done    bool  // the cell was set
	seen    cells // all cells as they were before
}

func (s *simulation) run() {
	for i := range s.servers {
		s.start(i)
	}
	working, rest := context.WithCancel(s.t.Context())
	var clients sync.WaitGroup
	for n := range uint64(2) {
		random := rand.New(rand.NewPCG(s.random.Uint64(), n))
		clients.Go(func() { s.write(working, n, random) })
	}
	for i := range s.servers {
		random := rand.New(rand.NewPCG(s.random.Uint64(), uint64(i)))
		clients.Go(func() { s.read(working, i, random) })
	}
	for range 6 {
		s.disturb()
	}
	s.avoid.Store(-1)
	for _, server := range s.servers {
		server.Disturb(nil)
		server.Continue()
	}
	healed, known := time.Now(), s.known()
	for s.known() < known+8 {
		if time.Since(healed) > 4*ttl {
			s.t.Errorf("nobody serves %v after all is healed", time.Since(healed))
			break
		}
		time.Sleep(ttl / 16)
	}
	rest()
	clients.Wait()
	for _, server := range s.servers {
		server.end()
	}
}

// start starts a server anew.
func (s *simulation) start(i int) {
	server := &simulated{Server: s.db.Server(unsteady.Weather(rand.New(rand.NewPCG(s.random.Uint64(), 2)), ttl/8)), calls: make(chan *cellCall)}
	server.Elector = replicated.New(replicated.Options{
		Database: server.Server, Words: replicated.Words{Database: "memory", Store: "here"}, Advertise: fmt.Sprint("http://", i),
		TTL: ttl, Poll: ttl / 4, SinceBoot: server.SinceBoot, Log: slog.New(slog.DiscardHandler),
		Bounds: replicated.Bounds{Writes: 4, Bytes: 1 << 10, Record: 1 << 9},
	})
	ctx, cancel := context.WithCancel(s.t.Context())
	server.stop = cancel
	s.mu.Lock()
	s.servers[i] = server
	s.mu.Unlock()
	server.running.Go(func() {
		for ctx.Err() == nil {
			if err := server.term(ctx); err != nil && ctx.Err() == nil {
				s.t.Errorf("server %d: %v", i, err)
				return
			}
		}
	})
}

func (s *simulation) server(i int) *simulated {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers[i]
}

// end ends a server. It resigns, if its calls arrive.
func (s *simulated) end() {
	s.Continue()
	s.stop()
	s.running.Wait()
	s.Elector.Close()
}

// disturb makes a fault, and mostly heals it after a while.
func (s *simulation) disturb() {
	i := s.random.IntN(len(s.servers))
	server := s.servers[i]
	long := time.Duration(s.random.Int64N(int64(2 * ttl)))
	s.avoid.Store(-1)
	if s.random.IntN(2) == 0 {
		s.avoid.Store(int64(i))
	}
	what := ""
	switch s.random.IntN(6) {
	case 0:
		what = "is stopped"
		server.Stop()
		time.Sleep(long)
		server.Continue()
	case 1:
		what = "is cut off"
		server.Disturb(everything(unsteady.Fate{Lost: true}))
		time.Sleep(long)
		server.Disturb(unsteady.Weather(rand.New(rand.NewPCG(s.random.Uint64(), 3)), ttl/8))
	case 2:
		what = "is killed, and started anew" // what is on its way arrives
		server.Disturb(everything(unsteady.Fate{Lost: true}))
		server.end()
		s.start(i)
	case 3:
		what = "is stopped cleanly, and started anew"
		server.end()
		s.start(i)
	case 4:
		what = "hears no answer"
		server.Disturb(everything(unsteady.Fate{Silent: true}))
		time.Sleep(long)
		server.Disturb(unsteady.Weather(rand.New(rand.NewPCG(s.random.Uint64(), 4)), ttl/8))
	default:
		what = "and all others are stopped"
		for _, server := range s.servers {
			server.Stop()
		}
		time.Sleep(long)
		for _, n := range s.random.Perm(len(s.servers)) {
			s.servers[n].Continue()
			time.Sleep(time.Duration(s.random.Int64N(int64(ttl / 8))))
		}
	}
	s.schedule.Faultf("%v: server %d %s for %v", time.Since(s.begun), i, what, long)
	time.Sleep(time.Duration(s.random.Int64N(int64(ttl))))
}

// term waits until the server leads, and serves until it leads no longer.
func (s *simulated) term(ctx context.Context) error {
	gaining, gained := context.WithCancel(ctx)
	refusing := make(chan struct{})
	go func() { // who stands by refuses
		defer close(refusing)
		for {
			select {
			case c := <-s.calls:
				c.answer <- cellAnswer{refused: true}
			case <-gaining.Done():
				return
			}
		}
	}()
	l, err := s.Gain(ctx)
	gained()
	<-refusing
	if err != nil {
		return err
	}
	err = s.serve(ctx, l)
	if err := l.Close(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, unsteady.ErrBroken) {
		return err
	}
	if errors.Is(err, store.ErrNotLeader) {
		return nil
	}
	return err
}

// serve answers calls as package proxyserver does: what changes the state when it is durable, and
// what was only read if the server still leads after it was read.
func (s *simulated) serve(ctx context.Context, l store.Lead) error {
	snap, err := l.Load()
	if err != nil {
		return err
	}
	var now cells
	for _, lease := range snap.Leases {
		now[lease.Name[0]-'a'] = lease.Generation
	}
	for {
		var batch store.Batch
		var waiting []*cellCall
		var answers []cellAnswer
		take := func(c *cellCall) {
			a := cellAnswer{known: true, seen: now}
			if c.cell >= 0 && now[c.cell] == c.old {
				now[c.cell], a.done = c.new, true
				name := string(rune('a' + c.cell))
				if c.old != 0 {
					batch.Changes = append(batch.Changes, leadtest.Done(name))
				}
				if c.new != 0 {
					batch.Changes = append(batch.Changes, leadtest.Granted(name, c.new))
				}
			}
			waiting, answers = append(waiting, c), append(answers, a)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.Over():
			return l.Holds()
		case c := <-s.calls:
			take(c)
		}
		for more := true; more; {
			select {
			case c := <-s.calls:
				take(c)
			default:
				more = false
			}
		}
		if len(batch.Changes) > 0 {
			err = l.Commit(batch)
		} else {
			err = l.Holds()
		}
		for i, c := range waiting {
			if err != nil {
				answers[i] = cellAnswer{}
			}
			c.answer <- answers[i]
		}
		if err != nil {
			return err
		}
	}
}

// write takes and releases leases until working ends. A call that is refused goes to the next
// server.
func (s *simulation) write(working context.Context, client uint64, random *rand.Rand) {
	var seen cells
	at := random.IntN(len(s.servers))
	for i := uint64(1); working.Err() == nil; i++ {
		c := &cellCall{cell: random.IntN(len(seen)), answer: make(chan cellAnswer, 1)}
		if c.old = seen[c.cell]; c.old == 0 {
			c.new = i<<8 + client + 1
		}
		if int(s.avoid.Load()) == at {
			at = (at + 1) % len(s.servers)
		}
		a := s.call(working, c, s.server(at), random)
		switch {
		case !a.known:
			at = (at + 1) % len(s.servers)
		case a.done:
			seen = a.seen
			seen[c.cell] = c.new
		default:
			seen = a.seen
		}
		_ = replicated.Sleep(working, time.Duration(random.Int64N(int64(ttl/16))))
	}
}

// read asks one server what is held until working ends.
func (s *simulation) read(working context.Context, i int, random *rand.Rand) {
	for working.Err() == nil {
		s.call(working, &cellCall{cell: -1, answer: make(chan cellAnswer, 1)}, s.server(i), random)
		_ = replicated.Sleep(working, time.Duration(random.Int64N(int64(ttl/4))))
	}
}

// call makes a call of one server, and notes what came of it.
func (s *simulation) call(working context.Context, c *cellCall, server *simulated, random *rand.Rand) (a cellAnswer) {
	called := time.Since(s.begun).Nanoseconds()
	patience := time.NewTimer(2 * ttl)
	defer patience.Stop()
	sent := false
	select {
	case server.calls <- c:
		sent = true
		select {
		case a = <-c.answer:
			time.Sleep(time.Duration(random.Int64N(int64(ttl / 32)))) // on its way
		case <-patience.C:
		}
	case <-patience.C:
	case <-working.Done():
	}
	op := porcupine.Operation{Input: *c, Output: a, Call: called, Return: time.Since(s.begun).Nanoseconds()}
	switch {
	case a.known:
	case sent && !a.refused && c.cell >= 0: // it may have been done, or still may be
		op.Return = 1 << 62
	default:
		return a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops = append(s.ops, op)
	return a
}

// known returns how many calls were answered so far.
func (s *simulation) known() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range s.ops {
		if op.Output.(cellAnswer).known {
			n++
		}
	}
	return n
}

// cellModel is one server that never fails.
var cellModel = porcupine.Model{
	Init: func() any { return cells{} },
	Step: func(state, input, output any) (bool, any) {
		now, c, a := state.(cells), input.(cellCall), output.(cellAnswer)
		if c.cell < 0 {
			return a.seen == now, now
		}
		before := now
		can := now[c.cell] == c.old
		if can {
			now[c.cell] = c.new
		}
		return !a.known || a.done == can && (can || a.seen == before), now
	},
	DescribeOperation: func(input, output any) string {
		c, a := input.(cellCall), output.(cellAnswer)
		return fmt.Sprintf("%d: %d to %d: %t %t %v", c.cell, c.old, c.new, a.known, a.done, a.seen)
	},
}
