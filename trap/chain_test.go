package trap

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/internal/testenv"
)

// raise sends a signal to this process.
func raise(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		t.Fatal(err)
	}
}

func newChain(t *testing.T, signals ...os.Signal) *Chain {
	c := NewChain(signals...)
	t.Cleanup(func() { c.Exit(0) })
	return c
}

// Every handler runs, in the order of adding, once for each signal. A handler that fails or
// panics stops no other handler.
func TestChainRunsEveryHandlerInOrder(t *testing.T) {
	c := newChain(t, syscall.SIGUSR1, syscall.SIGUSR2)
	var trace []string // only handlers write it, one after the other
	done := make(chan Event, 1)
	boom := errors.New("boom")
	c.OnSignal(func(e Event) error { trace = append(trace, "a"); return boom })
	c.OnSignal(func(e Event) error { trace = append(trace, "b"); panic("at the disco") })
	c.OnSignal(func(e Event) error { trace = append(trace, "c"); return nil })
	c.OnSignal(func(e Event) error { done <- e; return nil })

	const rounds = 100
	for i := range rounds {
		sig := []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2}[i%2]
		raise(t, sig)
		if e := testenv.Receive(t, done); e.Signal != sig || e.Status != 128+int(sig) {
			t.Fatalf("event %+v, want signal %v and status %d", e, sig, 128+int(sig))
		}
	}
	err := c.Exit(0)
	if !errors.Is(err, boom) {
		t.Fatalf("exit: %v, want boom in it", err)
	}
	testenv.Contains(t, err.Error(), "at the disco", "chain_test.go") // the panic and where it was
	if got, want := strings.Join(trace, ""), strings.Repeat("abc", rounds); got != want {
		t.Errorf("handlers ran %q, want %q", got, want)
	}
}

// Adding and removing takes effect on a run that is under way: a removed handler
// does not start, an added one waits for the next signal.
func TestChainChangesWhileItRuns(t *testing.T) {
	c := newChain(t, syscall.SIGUSR1)
	var trace []string
	done := make(chan struct{})
	var removeSelf, removeNext func()
	removeSelf = c.OnSignal(func(Event) error {
		trace = append(trace, "first")
		removeSelf()
		removeSelf()
		removeNext()
		c.OnSignal(func(Event) error { trace = append(trace, "added"); return nil })
		return nil
	})
	removeNext = c.OnSignal(func(Event) error { trace = append(trace, "removed"); return nil })
	c.OnSignal(func(Event) error { trace = append(trace, "last"); done <- struct{}{}; return nil })
	for range 2 {
		raise(t, syscall.SIGUSR1)
		testenv.Receive(t, done)
	}
	c.Exit(0)
	if want := []string{"first", "last", "last", "added"}; !slices.Equal(trace, want) {
		t.Errorf("handlers ran %q, want %q", trace, want)
	}
}

// A signal that comes before there is a handler is not lost.
func TestChainKeepsSignalsUntilThereIsAHandler(t *testing.T) {
	c := newChain(t, syscall.SIGUSR1)
	raise(t, syscall.SIGUSR1)
	c.hears(syscall.SIGUSR1)
	for range 1000 {
		runtime.Gosched() // time enough to lose the signal
	}
	got := make(chan Event, 1)
	c.OnSignal(func(e Event) error { got <- e; return nil })
	if e := testenv.Receive(t, got); e.Signal != syscall.SIGUSR1 {
		t.Errorf("event %v, want SIGUSR1", e)
	}
}

// hears waits until the chain has a signal that is not handled yet.
func (c *Chain) hears(sig os.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !slices.Contains(c.pending, sig) {
		c.changed.Wait()
	}
}

// A handler that takes long loses no signal: each kind that came is handled
// after it, in the order they came first, once.
func TestChainMergesWhatIsPending(t *testing.T) {
	c := newChain(t, Signals()...)
	entered, leave := make(chan struct{}), make(chan struct{})
	var got []os.Signal
	c.OnSignal(func(e Event) error {
		if got = append(got, e.Signal); len(got) == 1 {
			close(entered)
			<-leave
		}
		return nil
	})
	raise(t, syscall.SIGUSR1)
	testenv.Receive(t, entered)
	want := []os.Signal{syscall.SIGUSR1, syscall.SIGWINCH, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}
	for _, sig := range want[1:] {
		raise(t, sig.(syscall.Signal))
		c.hears(sig)
	}
	// The same again. The runtime keeps no order among signals that come fast.
	for range 50 {
		for _, sig := range want {
			c.arrived <- sig
		}
	}
	c.arrived <- syscall.SIGALRM
	c.hears(syscall.SIGALRM) // and so all before it
	want = append(want, syscall.SIGALRM)
	close(leave)
	c.Exit(0) // handles what is pending
	if !slices.Equal(got, want) {
		t.Errorf("handled %v, want %v", got, want)
	}
}

// A signal that came before the end is handled.
func TestChainHandlesWhatCameInTime(t *testing.T) {
	c := &Chain{arrived: make(chan os.Signal, 2), exited: make(chan struct{})}
	c.changed.L = &c.mu
	want := []os.Signal{syscall.SIGTERM, syscall.SIGUSR1}
	for _, sig := range want {
		c.arrived <- sig
	}
	close(c.exited)
	c.receive()
	for _, sig := range want {
		if !slices.Contains(c.pending, sig) {
			t.Errorf("%v is lost", sig)
		}
	}
}

// A chain hears signals that it listens to later as it hears those of NewChain, even if a
// handler asked for them.
func TestChainListensToMore(t *testing.T) {
	c := newChain(t, syscall.SIGUSR1)
	got := make(chan Event, 1)
	c.OnSignal(func(Event) error { c.Listen(syscall.SIGUSR2); return nil })
	c.OnSignal(func(e Event) error { got <- e; return nil })
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGUSR1} {
		raise(t, sig)
		if e := testenv.Receive(t, got); e.Signal != sig {
			t.Fatalf("event %v, want %v", e, sig)
		}
	}
}

func TestChainHearsRareSignals(t *testing.T) {
	c := newChain(t, RareSignals()...)
	got := make(chan Event, 1)
	c.OnSignal(func(e Event) error { got <- e; return nil })
	for _, sig := range RareSignals() {
		raise(t, sig.(syscall.Signal))
		if e := testenv.Receive(t, got); e.Signal != sig {
			t.Errorf("event %v, want %v", e, sig)
		}
	}
}

// After Exit a signal changes nothing: the program ends as decided.
func TestChainAfterExit(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1} {
		argv, env := testenv.Self("exited", strconv.Itoa(int(sig)))
		if s := wait(t, testenv.Start(t, argv, env, nil, nil, nil)); s.ExitStatus() != 3 {
			t.Errorf("%v: ended with %v", sig, s)
		}
	}
}

// exitedMode sends itself a signal when its chain has ended.
func exitedMode(args []string) int {
	c := NewChain(Signals()...)
	c.OnSignal(func(Event) error { os.Exit(4); return nil })
	c.Exit(3)
	n, err := strconv.Atoi(args[0])
	for range 100 { // each is taken in before the call returns, unless the kernel is slow for once
		if err == nil {
			err = syscall.Kill(os.Getpid(), syscall.Signal(n))
		}
	}
	if err != nil {
		panic(err)
	}
	return 3
}

// Exit handlers run once, in order, over any number of calls of Exit, and each call returns all
// errors.
func TestChainExitRunsOnce(t *testing.T) {
	c := NewChain(syscall.SIGUSR1)
	var trace []string
	boom := errors.New("boom")
	c.OnExit(func(e Event) error {
		trace = append(trace, "a"+strconv.Itoa(e.Status))
		if e.Signal != nil {
			t.Errorf("exit event has signal %v", e.Signal)
		}
		c.OnExit(func(Event) error { trace = append(trace, "late"); return nil })
		return boom
	})
	remove := c.OnExit(func(Event) error { trace = append(trace, "removed"); return nil })
	c.OnExit(func(Event) error { panic("exit, stage left") })
	c.OnExit(func(Event) error { trace = append(trace, "z"); return nil })
	remove()

	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			err := c.Exit(3)
			if !errors.Is(err, boom) || !strings.Contains(err.Error(), "stage left") {
				t.Errorf("exit: %v, want both failures", err)
			}
		})
	}
	calls.Wait()
	if want := []string{"a3", "z", "late"}; !slices.Equal(trace, want) {
		t.Errorf("handlers ran %q, want %q", trace, want)
	}
}

// A signal that comes while an exit handler runs is handled meanwhile, and does not have its
// default action. So a release that takes long can be told to hurry.
func TestChainListensWhileItExits(t *testing.T) {
	c := NewChain(syscall.SIGTERM)
	got := make(chan Event, 1)
	c.OnSignal(func(e Event) error { got <- e; return nil })
	c.OnExit(func(Event) error {
		raise(t, syscall.SIGTERM)
		if e := testenv.Receive(t, got); e.Signal != syscall.SIGTERM {
			t.Errorf("event %v, want SIGTERM", e)
		}
		return nil
	})
	if err := c.Exit(0); err != nil {
		t.Error(err)
	}
}

// pipeMode writes to a closed standard error, with a chain ("chain") or without.
func pipeMode(args []string) int {
	if args[0] == "chain" {
		c := NewChain()
		c.Listen()
		defer c.Exit(0)
	}
	_, err := os.Stderr.WriteString("is anybody there?\n")
	if errors.Is(err, syscall.EPIPE) {
		return 7
	}
	return 1
}

// A write to a closed standard error does not end a program that has a chain, and ends a
// program without one: so the chain makes the difference.
func TestChainOutlivesClosedOutput(t *testing.T) {
	for mode, want := range map[string]func(syscall.WaitStatus) bool{
		"chain": func(s syscall.WaitStatus) bool { return s.ExitStatus() == 7 },
		"plain": func(s syscall.WaitStatus) bool { return s.Signaled() && s.Signal() == syscall.SIGPIPE },
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		argv, env := testenv.Self("pipe", mode)
		process := testenv.Start(t, argv, env, nil, nil, w)
		w.Close()
		if got := wait(t, process); !want(got) {
			t.Errorf("%s: ended with %+v", mode, got)
		}
	}
}
