package campaign

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A way is how clients reach the servers of [replicas].
type way struct {
	name  string
	proxy string   // the value of --proxy
	env   []string // further variables of the clients
}

// ways returns each way that clients take to r.
func (r *replicas) ways() []way {
	return []way{
		{name: "list", proxy: r.list()},
		{name: "balancer", proxy: "http://" + r.balance()},
	}
}

// balance starts a balancer that passes bytes, as a Service of Kubernetes or haproxy in the mode tcp
// does: it sends each new connection to the server whose readiness probe succeeded last, and leaves
// open connections alone. It returns its HOST:PORT.
func (r *replicas) balance() string {
	return listenForBytes(r.t, func() (net.Conn, error) {
		s := r.probed.Load()
		if s == nil {
			return nil, net.ErrClosed
		}
		return net.Dial("tcp", s.host())
	})
}

// probe asks each server whether it is ready, until the test ends.
func (r *replicas) probe() {
	ended := make(chan struct{})
	var probing sync.WaitGroup
	for _, s := range r.servers {
		probing.Go(func() {
			for {
				if s.leads() {
					r.probed.Store(s)
				} else {
					r.probed.CompareAndSwap(s, nil)
				}
				select {
				case <-ended:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	r.t.Cleanup(func() { close(ended); probing.Wait() })
}

// listenForBytes passes the bytes of each connection to a connection that dial returns, until the
// test ends. It returns the HOST:PORT on which it listens.
func listenForBytes(t *testing.T, dial func() (net.Conn, error)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				to, err := dial()
				if err != nil {
					return
				}
				joinConns(c, to)
			}()
		}
	}()
	return l.Addr().String()
}

// joinConns passes bytes between two connections until one of them ends, and closes both.
func joinConns(a, b net.Conn) {
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			io.Copy(pair[0], pair[1])
			pair[0].Close()
			pair[1].Close()
		})
	}
	both.Wait()
}
