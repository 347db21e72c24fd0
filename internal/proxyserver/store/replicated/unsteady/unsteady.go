// Package unsteady is a database in memory for tests of package replicated. It delays, loses and
// repeats what it is asked, and forgets commits, as a test wants it to. A test can also stop the
// servers that use it, run many schedules of such faults ([Schedules]), and check what clients saw
// ([CheckHistory]).
//
// All time is that of package time, so that a test can run in a bubble of testing/synctest.
package unsteady

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
)

// Database has the content that all servers share.
type Database struct {
	mu      sync.Mutex
	content content
	kept    []content     // as of earlier commits, the oldest first; for Forget
	resign  chan struct{} // closed when somebody resigns
	resigns int
}

// content is what a database has on its disk.
type content struct {
	state    replicated.State
	records  map[uint64][]byte
	standbys map[string]replicated.Standby
	writes   int64 // the version of the last write
}

func (c content) clone() content {
	c.records, c.standbys = maps.Clone(c.records), maps.Clone(c.standbys)
	return c
}

// keptCommits is how many commits Forget can take back.
const keptCommits = 16

// New returns an empty database.
func New() *Database {
	return &Database{
		content: content{records: make(map[uint64][]byte), standbys: make(map[string]replicated.Standby)},
		resign:  make(chan struct{}),
	}
}

// Forget takes back the last n commits, and all else that was written since, as a database does
// that goes on from a copy. It forgets fewer if there are not as many.
func (d *Database) Forget(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n = min(n, len(d.kept)); n > 0 {
		d.content = d.kept[len(d.kept)-n]
		d.kept = d.kept[:len(d.kept)-n]
	}
}

// Erase deletes everything.
func (d *Database) Erase() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.content, d.kept = New().content, nil
}

// Server is the [replicated.Database] of one server, and its clock.
type Server struct {
	*Database

	mu      sync.Mutex
	fate    func(method string) Fate
	stopped chan struct{} // closed when the server goes on; nil: it is not stopped
	begun   time.Time

	resigned int // as resigns was at the last Wait; guarded by Database.mu
}

var _ replicated.Database = (*Server)(nil)

// Fate is what happens to a call. The zero Fate is a call that is carried out and answered at
// once.
type Fate struct {
	Before  time.Duration // until it arrives
	Lost    bool          // it does not arrive
	Silent  bool          // it is carried out, and not answered
	Broken  bool          // it is carried out, and the connection breaks
	Refused bool          // it is not carried out, and the answer says so: [replicated.ErrRefused]
	After   time.Duration // from then until it is answered
	Again   time.Duration // from then until a copy of it arrives; 0: none does
}

// Server returns the database as one server has it. fate decides what happens to each call; nil:
// nothing special.
func (d *Database) Server(fate func(method string) Fate) *Server {
	return &Server{Database: d, fate: fate, begun: time.Now()}
}

// Disturb replaces fate.
func (s *Server) Disturb(fate func(method string) Fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fate = fate
}

// Stop stops the server, as SIGSTOP does: it looks at no clock, sends nothing and hears nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped == nil {
		s.stopped = make(chan struct{})
	}
}

// Continue lets a stopped server go on.
func (s *Server) Continue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped != nil {
		close(s.stopped)
		s.stopped = nil
	}
}

// Pass blocks while the server is stopped.
func (s *Server) Pass() {
	for {
		s.mu.Lock()
		stopped := s.stopped
		s.mu.Unlock()
		if stopped == nil {
			return
		}
		<-stopped
	}
}

// SinceBoot is the clock of the server. It goes on while the server is stopped, but a stopped
// server cannot look at it.
func (s *Server) SinceBoot() time.Duration {
	s.Pass()
	return time.Since(s.begun)
}

// ErrBroken is the error of a call whose Fate is Broken.
var ErrBroken = errors.New("the connection broke")

// call carries out do as fate decides.
func (s *Server) call(ctx context.Context, method string, do func(c *content)) error {
	s.mu.Lock()
	var f Fate
	if s.fate != nil {
		f = s.fate(method)
	}
	s.mu.Unlock()
	s.Pass()
	defer s.Pass()
	apply := func() {
		s.Database.mu.Lock()
		defer s.Database.mu.Unlock()
		do(&s.content)
	}
	if f.Again > 0 {
		time.AfterFunc(f.Before+f.Again, apply)
	}
	if f.Refused {
		return replicated.ErrRefused
	}
	if f.Lost {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if f.Before > 0 {
		arrived := make(chan struct{})
		time.AfterFunc(f.Before, func() { apply(); close(arrived) })
		select {
		case <-arrived:
		case <-ctx.Done(): // it arrives nevertheless
			return context.Cause(ctx)
		}
	} else {
		apply()
	}
	if f.Broken {
		return ErrBroken
	}
	if f.Silent {
		f.After = math.MaxInt64
	}
	if f.After > 0 {
		return replicated.Sleep(ctx, f.After)
	}
	return nil
}

// answer is the result of a call. A later copy of the call does not change it.
type answer[T any] struct {
	mu    sync.Mutex
	value *T
}

func (a *answer[T]) set(value T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.value == nil {
		a.value = &value
	}
}

func (a *answer[T]) get() (value T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.value != nil {
		value = *a.value
	}
	return value
}

func (c *content) write() int64 { c.writes++; return c.writes }

// Look implements [replicated.Database].
func (s *Server) Look(ctx context.Context) (replicated.State, error) {
	var a answer[replicated.State]
	err := s.call(ctx, "Look", func(c *content) { a.set(c.state) })
	return a.get(), err
}

type taken struct {
	meta replicated.Entry
	ok   bool
}

// Take implements [replicated.Database].
func (s *Server) Take(ctx context.Context, leader []byte, seen int64) (replicated.Entry, bool, error) {
	var a answer[taken]
	err := s.call(ctx, "Take", func(c *content) {
		ok := c.state.Leader.Version == seen
		if ok {
			c.state.Leader = replicated.Entry{Value: leader, Version: c.write()}
		}
		a.set(taken{c.state.Meta, ok})
	})
	return a.get().meta, a.get().ok, err
}

// Keep implements [replicated.Database].
func (s *Server) Keep(ctx context.Context, leader []byte) (int64, bool, error) {
	var a answer[taken]
	err := s.call(ctx, "Keep", func(c *content) {
		ok := bytes.Equal(c.state.Leader.Value, leader)
		if ok {
			c.state.Leader.Version = c.write()
		}
		a.set(taken{c.state.Meta, ok})
	})
	return a.get().meta.Version, a.get().ok, err
}

// Resign implements [replicated.Database].
func (s *Server) Resign(ctx context.Context, leader []byte) error {
	return s.call(ctx, "Resign", func(c *content) {
		if bytes.Equal(c.state.Leader.Value, leader) {
			c.state.Leader = replicated.Entry{}
			s.resigns++
			close(s.resign)
			s.resign = make(chan struct{})
		}
	})
}

type committed struct {
	version int64
	done    bool
}

// Commit implements [replicated.Database].
func (s *Server) Commit(ctx context.Context, commit *replicated.Commit) (int64, bool, error) {
	var a answer[committed]
	cc := *commit
	err := s.call(ctx, "Commit", func(c *content) {
		if !bytes.Equal(c.state.Leader.Value, cc.Leader) || c.state.Meta.Version != cc.Version {
			a.set(committed{})
			return
		}
		if s.kept = append(s.kept, c.clone()); len(s.kept) > keptCommits {
			s.kept = s.kept[1:]
		}
		for _, w := range cc.Writes {
			if w.Value == nil {
				delete(c.records, w.Number)
			} else {
				c.records[w.Number] = w.Value
			}
		}
		c.state.Meta = replicated.Entry{Value: cc.Meta, Version: c.write()}
		a.set(committed{c.state.Meta.Version, true})
	})
	return a.get().version, a.get().done, err
}

// pageSize is small, so that a small store has several pages.
const pageSize = 3

type page struct {
	records []replicated.Record
	more    bool
}

// Read implements [replicated.Database].
func (s *Server) Read(ctx context.Context, from uint64) ([]replicated.Record, bool, error) {
	var a answer[page]
	err := s.call(ctx, "Read", func(c *content) {
		var p page
		for _, n := range slices.Sorted(maps.Keys(c.records)) {
			if n < from {
				continue
			}
			if p.more = len(p.records) == pageSize; p.more {
				break
			}
			p.records = append(p.records, replicated.Record{Number: n, Value: c.records[n]})
		}
		a.set(p)
	})
	return a.get().records, a.get().more, err
}

// Standbys implements [replicated.Database].
func (s *Server) Standbys(ctx context.Context, own *replicated.Standby) ([]replicated.Standby, error) {
	var a answer[[]replicated.Standby]
	err := s.call(ctx, "Standbys", func(c *content) {
		if own != nil {
			c.standbys[own.Name] = replicated.Standby{Name: own.Name, Value: own.Value, Version: c.write()}
		}
		a.set(slices.Collect(maps.Values(c.standbys)))
	})
	return a.get(), err
}

// Leave implements [replicated.Database].
func (s *Server) Leave(ctx context.Context, name string, version int64) error {
	return s.call(ctx, "Leave", func(c *content) {
		if version == 0 || c.standbys[name].Version == version {
			delete(c.standbys, name)
		}
	})
}

// Wait implements [replicated.Database]. Nobody resigns unnoticed between two calls.
func (s *Server) Wait(ctx context.Context, d time.Duration) error {
	s.Database.mu.Lock()
	resign, missed := s.resign, s.resigned != s.resigns
	s.resigned = s.resigns
	s.Database.mu.Unlock()
	defer s.Pass()
	t := time.NewTimer(d)
	defer t.Stop()
	if missed {
		return nil
	}
	select {
	case <-t.C:
	case <-resign:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Maintain implements [replicated.Database]. There is nothing to do.
func (s *Server) Maintain(context.Context) {}

// Advice implements [replicated.Database].
func (s *Server) Advice(error) string { return "" }

// Weather returns a fate for each call, mostly a good one. Delays are about as long as scale.
func Weather(random *rand.Rand, scale time.Duration) func(method string) Fate {
	var mu sync.Mutex
	return func(string) (f Fate) {
		mu.Lock()
		defer mu.Unlock()
		some := func() time.Duration { return time.Duration(random.Int64N(int64(scale))) }
		switch random.IntN(16) {
		case 0:
			f.Lost = true
		case 1:
			f.Silent = true
		case 2:
			f.Broken = true
		case 3:
			f.Before = 4 * some()
		case 4:
			f.After = 4 * some()
		case 5:
			f.Again = 8 * some()
		case 6:
			f.Broken, f.Again = true, 8*some()
		case 7:
			f.Lost, f.Again = true, 8*some() // it arrives after its call has failed
		default:
			f.Before, f.After = some()/8, some()/8
		}
		return f
	}
}
