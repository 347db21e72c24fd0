package holder

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// Until the program handles the signals that ask it to end, an acquire sends nothing. It
// connects already, since that takes as long as installing the handlers.
func TestNothingIsSentBeforeListening(t *testing.T) {
	for _, private := range []bool{true, false} {
		w := newWorld(t)
		listening := make(chan struct{})
		w.Holder = w.processThat(listening)
		w.Proxy.OnAcquire = func(http.ResponseWriter, *http.Request) bool {
			select {
			case <-listening:
			default:
				t.Error("asked before the handlers were there")
			}
			return false
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		accepted := &acceptListener{Listener: l, first: make(chan struct{})}
		server := &http.Server{Handler: w.Proxy.Config.Handler}
		go server.Serve(accepted)
		t.Cleanup(func() { server.Close() })
		w.Dialer.URL = "http://" + l.Addr().String()

		acquired := make(chan error, 1)
		go func() {
			_, err := w.Acquire(holdertest.Within(t), Request{Ask: leaseapi.Ask{Type: "t"}, Handle: w.Handle("h"), Private: private, WaitTimeout: time.Minute})
			acquired <- err
		}()
		if private { // a request that is not private waits before it is written into the handle
			<-accepted.first
		}
		time.Sleep(20 * time.Millisecond) // so that a request that is sent too early arrives
		close(listening)
		if err := <-acquired; err != nil {
			t.Fatal(err)
		}
	}
}

// Until the program handles the signals that ask it to end, a release only writes its journal
// entry.
func TestNoReleaseIsSentBeforeListening(t *testing.T) {
	w := newWorld(t)
	handle := w.take(Request{Ask: leaseapi.Ask{Count: 1}}).handle
	listening := make(chan struct{})
	w.Proxy.OnRelease = func(http.ResponseWriter, *http.Request) bool {
		select {
		case <-listening:
		default:
			t.Error("released before the handlers were there")
		}
		return false
	}
	later := w.processThat(listening)
	released := make(chan error, 1)
	go func() {
		_, _, err := later.releaseHandle(holdertest.Within(t), cleanup.Timeout, handle, Anything)
		released <- err
	}()
	for w.JournalEntries() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // so that a write or request that is too early arrives
	if got := w.record(handle).State; got != lockfile.HandleHeld {
		t.Errorf("before the handlers were there the handle became %s", got)
	}
	close(listening)
	if err := <-released; err != nil {
		t.Fatal(err)
	}
}

// acceptListener closes its channel first once it has accepted a connection.
type acceptListener struct {
	net.Listener
	once  sync.Once
	first chan struct{}
}

func (l *acceptListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.once.Do(func() { close(l.first) })
	return c, err
}
