package proxyclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

var hour = Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, RequestID: "id", Wait: time.Hour}

// troubles records the calls of OnTrouble.
type troubles struct {
	last  error
	since time.Time
	ends  int // how often it was over
}

func (s *troubles) of(r Request) Request {
	r.OnTrouble = func(err error, since time.Time) {
		s.last, s.since = err, since
		if err == nil {
			s.ends++
		}
	}
	return r
}

// The client asks about a first request without an answer on another connection. So a lost
// answer costs only half a minute.
func TestAcquireAsksAboutSilence(t *testing.T) {
	bubble(t, "ours, free", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s, hanging)
		start := time.Now()
		_, err := c.Acquire(t.Context(), hour)
		want(t, err)
		if d := time.Since(start); d != askAfter || s.granted["id"] != 1 {
			t.Errorf("took %s, granted %d times", d, s.granted["id"])
		}
	})
	bubble(t, "ours, that was known by other answers meanwhile", func(t *testing.T) {
		s := newOurs(t, "a")
		c, m := serve(t, s, hanging)
		time.AfterFunc(2*time.Second, func() { c.RequestState(context.Background(), "id") })
		start := time.Now()
		_, err := c.Acquire(t.Context(), hour)
		want(t, err)
		if d := time.Since(start); d != askAfter || m.dialled() != 3 {
			t.Errorf("took %s and %d connections", d, m.dialled())
		}
	})
	bubble(t, "version 1", func(t *testing.T) {
		v := newVersion1(t)
		v.known("a")
		c, _ := serve(t, v)
		time.AfterFunc(50*time.Minute, func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.put("a")
		})
		var told troubles
		_, err := c.Acquire(t.Context(), told.of(hour))
		want(t, err)
		if v.acquires != 1 || told.last != nil {
			t.Errorf("asked %d times, trouble %v", v.acquires, told.last)
		}
	})
	bubble(t, "nobody, though the connection stays open", func(t *testing.T) {
		c, m := serve(t, newOurs(t), hanging)
		time.AfterFunc(time.Second, func() { m.Close() })
		var told troubles
		start := time.Now()
		_, err := c.Acquire(t.Context(), told.of(hour))
		want(t, err, ErrUnreachable, ErrUnconfirmed)
		if d := time.Since(start); d < maxTrouble || d > maxTrouble+maxPause+cancelTime {
			t.Errorf("took %s", d)
		}
		if told.last == nil || !strings.Contains(err.Error(), "connection refused") || !told.since.Equal(start) {
			t.Errorf("trouble since %s: %v; error %v", told.since, told.last, err)
		}
	})
}

// A grant whose answer was silently lost is asked for again before the provisional grant
// ends. A request that comes later goes to the end of the queue.
func TestAcquireLostAnswerInTime(t *testing.T) {
	grantedInSilence := fault{hang: true, done: true}
	for name, known := range map[string]bool{"a proxy of unknown kind": false, "ours": true} {
		bubble(t, name, func(t *testing.T) {
			s := newOurs(t, "a")
			faults := []fault{grantedInSilence}
			if known {
				faults = []fault{{}, grantedInSilence}
			}
			c, _ := serve(t, s, faults...)
			if known {
				_, err := c.Capabilities(t.Context())
				want(t, err)
			}
			start := time.Now()
			_, err := c.Acquire(t.Context(), hour)
			want(t, err)
			if d := time.Since(start); d <= leaseapi.SliceTime || d >= leaseapi.ProvisionalTTL || s.granted["id"] != 1 {
				t.Errorf("took %s, granted %d times", d, s.granted["id"])
			}
		})
	}
}

// leasectl's own proxy answers at the end of the wait. If it does not, but answers a
// question, the request is sent once more, since the lease may be granted.
func TestAcquireLostAnswerAtTheEnd(t *testing.T) {
	short := Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, RequestID: "id", Wait: 10 * time.Second}
	silence := fault{hang: true, done: true}
	bubble(t, "of a grant", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s, fault{}, silence)
		_, err := c.Capabilities(t.Context())
		want(t, err)
		_, err = c.Acquire(t.Context(), short)
		want(t, err)
		if s.granted["id"] != 1 {
			t.Errorf("granted %d times", s.granted["id"])
		}
	})
	bubble(t, "that nothing is free", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s, fault{}, silence)
		_, err := c.Capabilities(t.Context())
		want(t, err)
		_, err = c.Acquire(t.Context(), short)
		want(t, err, ErrExhausted)
		if _, queued := s.state(); queued != 0 {
			t.Error("it still waits")
		}
	})
	bubble(t, "that is slow, as all others are", func(t *testing.T) {
		s := newOurs(t, "a")
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(3 * time.Second)
			s.ServeHTTP(w, r)
		})
		c, _ := serve(t, slow)
		_, err := c.Capabilities(t.Context())
		want(t, err)
		try := short
		try.Wait = 0
		_, err = c.Acquire(t.Context(), try)
		want(t, err)
		time.Sleep(3 * time.Second) // for the handler of a question that was cut
	})
	bubble(t, "whatever it was", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s, fault{}, silence, silence, silence, silence)
		_, err := c.Capabilities(t.Context())
		want(t, err)
		start := time.Now()
		_, err = c.Acquire(t.Context(), short)
		want(t, err, ErrUnreachable)
		if errors.Is(err, ErrExhausted) {
			t.Error(err)
		}
		if d := time.Since(start); d > short.Wait+answerTime+cancelTime {
			t.Errorf("took %s", d)
		}
	})
}

// The client gives up on a server that accepts connections and never answers.
func TestAcquireNeverAnswered(t *testing.T) {
	silent := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // only then is a lost connection seen
		<-r.Context().Done()
	})
	bubble(t, "an hour", func(t *testing.T) {
		c, _ := serve(t, silent)
		start := time.Now()
		_, err := c.Acquire(t.Context(), hour)
		want(t, err, ErrUnreachable)
		if d := time.Since(start); d < maxTrouble || d > maxTrouble+quickTime+maxPause+cancelTime {
			t.Errorf("took %s: %v", d, err)
		}
	})
	bubble(t, "a short wait", func(t *testing.T) {
		c, _ := serve(t, silent)
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: 5 * time.Second})
		want(t, err, ErrUnreachable)
		if errors.Is(err, ErrExhausted) {
			t.Error(err)
		}
	})
	bubble(t, "which kind it is", func(t *testing.T) {
		c, _ := serve(t, silent)
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 2}, Wait: time.Hour})
		want(t, err, ErrUnreachable)
		if d := time.Since(start); d < maxTrouble || d > maxTrouble+quickTime+maxPause {
			t.Errorf("took %s", d)
		}
	})
}

// The client retries for a minute while there are only errors, and reports them meanwhile.
func TestAcquireErrorsOnly(t *testing.T) {
	broken := func(w http.ResponseWriter, r *http.Request) { http.Error(w, "boom: no quota", 500) }
	bubble(t, "from the start", func(t *testing.T) {
		c, _ := serve(t, http.HandlerFunc(broken))
		var told troubles
		start := time.Now()
		_, err := c.Acquire(t.Context(), told.of(hour))
		want(t, err, ErrUnreachable)
		if d := time.Since(start); d < maxTrouble || d > maxTrouble+maxPause+cancelTime {
			t.Errorf("took %s", d)
		}
		if !strings.Contains(err.Error(), "answers with errors only: http://proxy.test: the proxy answered 500 Internal Server Error: boom: no quota") || told.since != start {
			t.Errorf("error %v, trouble since %s", err, told.since)
		}
	})
	bubble(t, "a while", func(t *testing.T) {
		s := newOurs(t, "a")
		start := time.Now()
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if time.Since(start) < maxTrouble-maxPause-time.Second {
				broken(w, r)
				return
			}
			s.ServeHTTP(w, r)
		}))
		var told troubles
		_, err := c.Acquire(t.Context(), told.of(hour))
		want(t, err)
		if told.ends != 1 {
			t.Errorf("told %d times that it was over", told.ends)
		}
	})
	bubble(t, "the proxy's word that nothing is free", func(t *testing.T) {
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, `Failed to acquire lease "t": resources not found`, 500)
		}))
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: 5 * time.Minute})
		want(t, err, ErrExhausted)
		if d := time.Since(start); d < 5*time.Minute {
			t.Errorf("took %s", d)
		}
	})
}

// flapping is a network that works for up, and then fails for down, in turns.
type flapping struct {
	up, down time.Duration

	mu    sync.Mutex
	gone  bool
	conns []net.Conn
}

func (f *flapping) run(ctx context.Context) {
	for Sleep(ctx, f.up) == nil {
		f.mu.Lock()
		f.gone = true
		for _, c := range f.conns {
			c.Close()
		}
		f.conns = nil
		f.mu.Unlock()
		if Sleep(ctx, f.down) != nil {
			return
		}
		f.mu.Lock()
		f.gone = false
		f.mu.Unlock()
	}
}

func (f *flapping) dial(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.gone {
			return nil, &net.OpError{Op: "dial", Net: "mem", Err: syscall.ECONNREFUSED}
		}
		c, err := dial(ctx, network, addr)
		if err == nil {
			f.conns = append(f.conns, c)
		}
		return c, err
	}
}

// A server that comes and goes faster than it answers a waiter does not count as silent:
// the waiter keeps its place, and learns it.
func TestAcquireFromFlappingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newOurs(t)
		c, m := serve(t, s)
		f := &flapping{up: 8 * time.Second, down: 2 * time.Second}
		c.transport.DialContext = tracked(f.dial(m.dial))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { f.run(ctx) })
		s.freeAfter(10*time.Minute, "a")
		places := 0
		r := hour
		r.OnQueued = func(leaseapi.Queued) { places++ }
		_, err := c.Acquire(t.Context(), r)
		cancel()
		running.Wait()
		want(t, err)
		if places == 0 || s.granted["id"] != 1 {
			t.Errorf("told of %d places, granted %d times", places, s.granted["id"])
		}
	})
}

// A proxy that breaks every connection is ErrUnreachable, whether the wait or the patience
// ends first.
func TestBrokenConnectionsOnly(t *testing.T) {
	for _, first := range []time.Duration{0, 50 * time.Millisecond} {
		bubble(t, first.String(), func(t *testing.T) {
			var asked atomic.Int32
			c, _ := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				if asked.Add(1) == 1 {
					time.Sleep(first)
				}
				panic(http.ErrAbortHandler)
			}))
			_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: 2 * time.Second})
			want(t, err, ErrUnreachable, ErrUnconfirmed)
		})
	}
}
