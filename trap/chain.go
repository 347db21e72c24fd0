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

// Event is the reason why a handler is called: a signal, or the exit.
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

// Chain runs handlers when a signal comes and when the program ends. Adding a handler never
// replaces one.
//
// Signal handlers run one after the other on a goroutine of the chain. The next signal waits
// until they have returned, so a handler must start long work on another goroutine. A signal
// that comes while there is no handler waits for one.
//
// Once a chain listens to any signal, a write to a standard output or error whose reader has
// closed it fails with EPIPE instead of ending the program by SIGPIPE: otherwise one line on a
// closed stderr would skip every exit handler.
//
// All methods may be called from several goroutines.
type Chain struct {
	arrived chan os.Signal
	ends    sync.WaitGroup // of the chain's goroutines
	exit    sync.Once
	exited  chan struct{} // closed after the exit handlers
	failed  error         // the first error of a signal handler; of dispatch until dispatch has ended
	err     error         // what Exit returns; written in exit

	mu       sync.Mutex
	pipe     bool        // SIGPIPE was asked for
	changed  sync.Cond   // pending, onSignal or closed changed
	pending  []os.Signal // arrived and not handled yet, each once
	closed   bool        // the exit handlers have run: no further signal becomes pending
	serves   bool        // dispatch was started, by the first signal
	lastID   int
	onSignal []handler
	onExit   []handler
}

// handler is one link of a chain. IDs grow, so that a run through the chain finds its place
// again after handlers were removed.
type handler struct {
	id  int
	run func(Event) error
}

// NewChain returns a chain that listens to signals: see [Chain.Listen]. Without arguments it
// listens to no signal yet. Its goroutines end with [Chain.Exit].
func NewChain(signals ...os.Signal) *Chain {
	c := &Chain{
		// receive only moves signals to pending, so it never lags behind by
		// more than a scheduler's delay; the kernel knows 64 signals.
		arrived: make(chan os.Signal, 64),
		exited:  make(chan struct{}),
	}
	c.changed.L = &c.mu
	if len(signals) > 0 {
		c.Listen(signals...)
	}
	c.ends.Go(c.receive)
	return c
}

// Listen makes the chain listen to further signals, except ignored ones: see the package
// comment for which of these can be known. It returns when their handlers are installed; until
// then a signal may still end the program. Each signal costs a switch to a thread of the
// runtime and back, some tens of microseconds, so a program that runs for milliseconds calls
// Listen on a goroutine of its own.
func (c *Chain) Listen(signals ...os.Signal) {
	if slices.Contains(signals, os.Signal(syscall.SIGPIPE)) {
		c.mu.Lock()
		c.pipe = true
		c.mu.Unlock()
	}
	c.notify(syscall.SIGPIPE)
	for _, sig := range signals {
		c.notify(sig)
	}
}

func (c *Chain) notify(sig os.Signal) {
	if !Ignored(sig) {
		signal.Notify(c.arrived, sig)
	}
}

// OnSignal adds a handler for every signal that the chain listens to. After remove has
// returned, no further signal reaches the handler. remove does not wait for a call that is
// running or about to start.
func (c *Chain) OnSignal(run func(Event) error) (remove func()) {
	return c.add(&c.onSignal, run)
}

// OnExit adds a handler for [Chain.Exit]. A handler that is added while Exit runs the exit
// handlers runs, too; one that is added later does not.
func (c *Chain) OnExit(run func(Event) error) (remove func()) {
	return c.add(&c.onExit, run)
}

// Exit runs the exit handlers at the end of the program. It returns their errors and panics,
// joined with those of the signal handlers for the first signal that had any.
//
// Signals that come before the last exit handler has returned are handled. A later signal has
// no effect, not even its default action. A second call waits for the first and returns the
// same error.
//
// Exit waits for the handlers of the chain, so a handler must not call it.
func (c *Chain) Exit(status int) error {
	c.exit.Do(func() {
		err := c.run(&c.onExit, Event{Status: status}, math.MaxInt)
		close(c.exited)
		c.ends.Wait()
		c.err = errors.Join(c.failed, err)
	})
	return c.err
}

func (c *Chain) add(list *[]handler, run func(Event) error) (remove func()) {
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

// receive takes signals off the channel at once, since the runtime drops signals when the
// channel is full.
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
		c.queue(<-c.arrived) // came before the end of the exit handlers
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
	if !c.serves {
		c.serves = true
		c.ends.Go(c.dispatch)
	}
}

// dispatch runs the handlers for each signal.
func (c *Chain) dispatch() {
	for {
		e, lastID, ok := c.next()
		if !ok {
			return
		}
		if err := c.run(&c.onSignal, e, lastID); c.failed == nil {
			c.failed = err
		}
	}
}

// next waits until there is a signal and a handler for it. Handlers with an id
// above lastID were added after the signal was taken from pending.
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
func (c *Chain) run(list *[]handler, e Event, lastID int) error {
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
		errs = append(errs, call(h, e))
	}
}

// call runs one handler and turns a panic into an error.
func call(h handler, e Event) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("handler for %v panicked: %v\n%s", e, v, debug.Stack())
		}
	}()
	return h.run(e)
}

// Signals returns the signals that a program should forward to the command it runs: all that
// can be caught, except
//
//   - SIGCHLD, SIGURG and SIGPROF, which the kernel and the Go runtime send to this process for
//     its own use;
//   - SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPIPE and SIGXFSZ, which answer an
//     act of this process: the command gets its own;
//   - SIGTSTP and SIGCONT, which package child forwards by itself, and SIGTTIN and SIGTTOU,
//     which must keep their default action: a background process that catches them tries to use
//     the terminal over and over again;
//   - those of [RareSignals].
func Signals() []os.Signal {
	return append([]os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	}, platformSignals...)
}

// RareSignals returns the other signals that a program should forward. They are hardly ever
// sent: timers, SIGIO, the warning of a CPU limit, and on Linux SIGPWR and the real-time
// signals 35 to 64. (The runtime keeps 32 to 34 for itself, 34 being SIGRTMIN for a program
// that uses glibc.) The runtime ignores them until the program listens to them. On Linux there
// are 35 of them, so a short program should listen to them late: see [Chain.Listen] for the
// cost of each.
func RareSignals() []os.Signal {
	return append([]os.Signal{
		syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGIO, syscall.SIGXCPU,
	}, platformRareSignals()...)
}
