package trap

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
)

// Event is what a handler is called for.
type Event struct {
	Signal os.Signal // nil at exit
	Status int       // 128+n for signal n, at exit the exit status
}

func (e Event) String() string {
	if e.Signal == nil {
		return fmt.Sprintf("exit %d", e.Status)
	}
	return e.Signal.String()
}

// Chain runs handlers when a signal comes and when the program ends. Adding a
// handler never replaces one.
//
// Signal handlers run one after the other on a goroutine of the chain, so the
// next signal waits until they have returned: start elsewhere what takes long.
// A signal that comes while there is no handler waits for one.
//
// While a chain listens, writing to a standard output or error that nobody
// reads fails with EPIPE instead of ending the program by SIGPIPE: otherwise
// one line on a closed stderr would skip every exit handler.
//
// All methods may be called from several goroutines.
type Chain struct {
	arrived chan os.Signal
	ends    sync.WaitGroup // of the chain's goroutines
	exit    sync.Once
	exited  chan struct{} // closed after the exit handlers
	err     error         // of the exit handlers; written in exit

	mu       sync.Mutex
	pipe     bool        // SIGPIPE was asked for
	changed  sync.Cond   // pending, onSignal or closed changed
	pending  []os.Signal // arrived and not handled yet, each once
	closed   bool        // nothing is handled any more
	lastID   int
	onSignal []handler
	onExit   []handler
	onError  []handler
}

// handler is one link of a chain. IDs grow, so that a run through the chain
// finds its place again after others were removed.
type handler struct {
	id  int
	run func(Event, error) error
}

// NewChain returns a chain that listens to signals: see [Chain.Listen].
func NewChain(signals ...os.Signal) *Chain {
	c := &Chain{
		// receive only moves signals to pending, so it never lags behind by
		// more than a scheduler's delay; the kernel knows 64 signals.
		arrived: make(chan os.Signal, 64),
		exited:  make(chan struct{}),
	}
	c.changed.L = &c.mu
	c.notify(syscall.SIGPIPE)
	c.Listen(signals...)
	c.ends.Go(c.receive)
	c.ends.Go(c.dispatch)
	return c
}

// Listen makes the chain hear further signals, but those that are ignored: see
// the package comment for which of these can be known. It returns when they are
// heard. For each signal it switches to a thread of the runtime and back, some
// tens of microseconds: a program of milliseconds calls it on a goroutine of its
// own, and goes on meanwhile with what may still be killed.
func (c *Chain) Listen(signals ...os.Signal) {
	if slices.Contains(signals, os.Signal(syscall.SIGPIPE)) {
		c.mu.Lock()
		c.pipe = true
		c.mu.Unlock()
	}
	for _, sig := range signals {
		c.notify(sig)
	}
}

func (c *Chain) notify(sig os.Signal) {
	if !Ignored(sig) {
		signal.Notify(c.arrived, sig)
	}
}

// OnSignal adds a handler for every signal that the chain listens to. After
// remove has returned it is not started any more; one that runs is not waited
// for.
func (c *Chain) OnSignal(run func(Event) error) (remove func()) {
	return c.add(&c.onSignal, func(e Event, _ error) error { return run(e) })
}

// OnExit adds a handler for [Chain.Exit]. One that is added while Exit runs
// still runs, one that is added later does not.
func (c *Chain) OnExit(run func(Event) error) (remove func()) {
	return c.add(&c.onExit, func(e Event, _ error) error { return run(e) })
}

// OnError adds a function that is told of every signal handler that failed or
// panicked. Without one these errors are lost: only those of exit handlers can
// be returned to somebody.
func (c *Chain) OnError(run func(Event, error)) (remove func()) {
	return c.add(&c.onError, func(e Event, err error) error { run(e, err); return nil })
}

// Exit runs the exit handlers and returns the errors of the handlers joined. It
// is for the end of the program. Signals are heard until the exit handlers are
// done, and those that came in time are still handled; what comes later changes
// nothing any more, neither the exit status nor by its default action. Only the
// first call does anything; every further one waits for it and returns the same
// error.
//
// Exit must not be called by a handler of the chain: it waits for them.
func (c *Chain) Exit(status int) error {
	c.exit.Do(func() {
		c.err = c.run(&c.onExit, Event{Status: status}, nil, math.MaxInt)
		close(c.exited)
		c.ends.Wait()
	})
	return c.err
}

func (c *Chain) add(list *[]handler, run func(Event, error) error) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	id := c.lastID
	*list = append(*list, handler{id, run})
	c.changed.Broadcast()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		*list = slices.DeleteFunc(*list, func(h handler) bool { return h.id == id })
	}
}

// receive takes signals off the channel at once, since the runtime drops what
// does not fit into it.
func (c *Chain) receive() {
	for open := true; open; {
		select {
		case sig := <-c.arrived:
			c.queue(sig)
		case <-c.exited:
			open = false
		}
	}
	for len(c.arrived) > 0 {
		c.queue(<-c.arrived) // came in time
	}
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
}

func (c *Chain) queue(sig os.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sig == syscall.SIGPIPE && !c.pipe || slices.Contains(c.pending, sig) {
		return
	}
	c.pending = append(c.pending, sig)
	c.changed.Broadcast()
}

// dispatch runs the handlers for each signal.
func (c *Chain) dispatch() {
	for {
		e, lastID, ok := c.next()
		if !ok {
			return
		}
		if err := c.run(&c.onSignal, e, nil, lastID); err != nil {
			c.run(&c.onError, e, err, math.MaxInt)
		}
	}
}

// next waits for a signal and for a handler to give it to. A handler added
// later than lastID did not exist when the signal was taken up.
func (c *Chain) next() (e Event, lastID int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && (len(c.pending) == 0 || len(c.onSignal) == 0) {
		c.changed.Wait()
	}
	if len(c.pending) == 0 || len(c.onSignal) == 0 {
		return Event{}, 0, false
	}
	sig := c.pending[0]
	c.pending = slices.Delete(c.pending, 0, 1)
	e = Event{Signal: sig}
	if n, ok := sig.(syscall.Signal); ok {
		e.Status = 128 + int(n)
	}
	return e, c.lastID, true
}

// run calls the handlers of a list in order, up to the one with lastID.
func (c *Chain) run(list *[]handler, e Event, cause error, lastID int) error {
	var errs []error
	for id := 0; ; {
		c.mu.Lock()
		i := slices.IndexFunc(*list, func(h handler) bool { return h.id > id })
		if i < 0 || (*list)[i].id > lastID {
			c.mu.Unlock()
			return errors.Join(errs...)
		}
		h := (*list)[i]
		c.mu.Unlock()
		id = h.id
		errs = append(errs, call(h, e, cause))
	}
}

// call runs one handler and turns a panic into an error.
func call(h handler, e Event, cause error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("handler for %v panicked: %v\n%s", e, v, debug.Stack())
		}
	}()
	return h.run(e, cause)
}
