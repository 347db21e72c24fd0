package proxyclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// group is several servers on one store, distinguished by their host names.
type group struct {
	*ours
	mu     sync.Mutex
	leader string            // host; empty: no server leads
	names  string            // URL of the leader, according to the other servers
	mute   bool              // the other servers do not say that they stood by
	silent string            // host of a server that takes requests and never answers
	stores map[string]string // ids of stores, by host; empty: all servers have one store
	asked  []string          // hosts, in the order of the calls
	backup http.Handler      // of the leader's backups

	// By hosts:
	gateways     map[string]fault // that a gateway answers for the server
	certificates map[string]error // why that of the server is not trusted
}

func newGroup(t *testing.T, leader string, faults ...fault) (*Client, *group) {
	t.Helper()
	g := &group{ours: newOurs(t, "a"), leader: leader}
	c, m := serve(t, g, faults...)
	m.refuse = func(addr string) error {
		host, _, _ := net.SplitHostPort(addr)
		g.mu.Lock()
		defer g.mu.Unlock()
		if err := g.certificates[host]; err != nil {
			g.asked = append(g.asked, host)
			return &tls.CertificateVerificationError{Err: err}
		}
		return nil
	}
	c.servers.bases = []string{"http://a.test", "http://b.test/prefix", "http://c.test"}
	c.file.token = "a-token-of-a-job"
	return c, g
}

func (g *group) lead(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leader = host
}

func (g *group) hang(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent = host
}

// hosts returns the hosts that were asked since the last call of hosts.
func (g *group) hosts() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.asked
	g.asked = nil
	return asked
}

func (g *group) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.asked = append(g.asked, r.Host)
	leads, names, store, mute, silent := r.Host == g.leader, g.names, g.stores[r.Host], g.mute, r.Host == g.silent
	gateway, instead := g.gateways[r.Host]
	g.mu.Unlock()
	if instead {
		w.WriteHeader(gateway.status)
		io.WriteString(w, gateway.body)
		return
	}
	if silent {
		io.Copy(io.Discard, r.Body) // otherwise the server does not notice when the client goes
		<-r.Context().Done()
		return
	}
	if store == "" {
		store = "ONE"
	}
	w.Header().Set(leaseapi.HeaderStore, store)
	r.URL.Path = strings.TrimPrefix(r.URL.Path, "/prefix")
	if leads && r.URL.Path == leaseapi.PathBackup {
		g.backup.ServeHTTP(w, r)
		return
	}
	if leads {
		g.ours.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Retry-After", "7")
	problem(w, http.StatusServiceUnavailable, leaseapi.Problem{Type: leaseapi.ProblemNotLeader, Leader: names, Standby: !mute})
}

// A call finds the leader at once, without a pause, and the next call begins there. A
// leader outside of the list is not asked.
func TestFindsTheLeader(t *testing.T) {
	for _, tt := range []struct {
		name, leader, says string
		asked              []string
	}{
		{"the first leads", "a.test", "", []string{"a.test"}},
		{"the last leads", "c.test", "", []string{"a.test", "b.test", "c.test"}},
		{"the others say who leads", "c.test", "http://c.test/", []string{"a.test", "c.test"}},
		{"they say wrong", "c.test", "http://b.test/prefix", []string{"a.test", "b.test", "c.test"}},
		{"they name a stranger", "b.test", "http://evil.test", []string{"a.test", "b.test"}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			c, g := newGroup(t, tt.leader)
			g.names = tt.says
			start := time.Now()
			got, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}})
			want(t, err)
			if asked := g.hosts(); !slices.Equal(asked, tt.asked) || time.Since(start) > 0 {
				t.Errorf("asked %v in %v, want %v at once", asked, time.Since(start), tt.asked)
			}
			_, err = c.Renew(t.Context(), got.Leases, 0)
			want(t, err)
			_, err = c.Release(t.Context(), Releasing(got.Leases, ""))
			want(t, err)
			if asked := g.hosts(); !slices.Equal(asked, []string{tt.leader, tt.leader}) {
				t.Errorf("then asked %v", asked)
			}
		})
	}
}

// A waiting request survives an election of any length within its wait. A call that does
// not wait ends with the servers' answer.
func TestElection(t *testing.T) {
	bubble(t, "waits", func(t *testing.T) {
		c, g := newGroup(t, "")
		time.AfterFunc(10*time.Minute, func() { g.lead("b.test") })
		start := time.Now()
		var last error
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour, OnTrouble: func(err error, since time.Time) {
			if last = err; err != nil && (!errors.Is(err, ErrNotLeader) || !since.Equal(start)) {
				t.Errorf("told of %v since %v, want %v since %v", err, since, ErrNotLeader, start)
			}
		}})
		want(t, err)
		if took := time.Since(start); took > 10*time.Minute+electionPause || last != nil {
			t.Errorf("took %v; the last that was told of is %v", took, last)
		}
	})
	bubble(t, "says since when, also after other failures", func(t *testing.T) {
		c, g := newGroup(t, "", fault{}, fault{}, dialRefused, dialRefused, badGateway)
		c.servers.bases = c.servers.bases[:1]
		time.AfterFunc(time.Minute, func() { g.lead("a.test") })
		start, told := time.Now(), false
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour, OnTrouble: func(err error, since time.Time) {
			if errors.Is(err, ErrNotLeader) {
				told = told || time.Since(start) > 50*time.Second
				if !since.Equal(start) {
					t.Errorf("%v after the start nobody leads since %v after it", time.Since(start), since.Sub(start))
				}
			}
		}})
		want(t, err)
		if !told {
			t.Error("nobody was told of the election")
		}
	})
	for _, tt := range []struct {
		name        string
		mute        bool
		r           Request
		unconfirmed bool
	}{
		{"within its wait", false, Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: 5 * time.Minute}, false},
		{"several", false, Request{Ask: leaseapi.Ask{Type: "t", Count: 2}, Wait: 5 * time.Minute}, false},
		{"one that does not wait", false, Request{Ask: leaseapi.Ask{Type: "t", Count: 1}}, false},
		{"several that do not wait", false, Request{Ask: leaseapi.Ask{Type: "t", Count: 2}}, false},
		{"servers that may have led when it came", true, Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: 5 * time.Minute}, true},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			c, g := newGroup(t, "")
			g.mute = tt.mute
			start := time.Now()
			_, err := c.Acquire(t.Context(), tt.r)
			want(t, err, ErrUnreachable)
			if errors.Is(err, ErrExhausted) || errors.Is(err, ErrUnconfirmed) != tt.unconfirmed {
				t.Error(err)
			}
			latest := tt.r.Wait + electionPause
			if tt.unconfirmed {
				latest += cancelTime
			}
			if took := time.Since(start); took < tt.r.Wait || took > latest {
				t.Errorf("ended after %v", took)
			}
		})
	}
	bubble(t, "one server does not answer, the others stand by", func(t *testing.T) {
		c, g := newGroup(t, "", fault{}, fault{}, dialRefused, fault{}, dialRefused, fault{}, fault{}, resetInside)
		time.AfterFunc(time.Minute, func() { g.lead("a.test") })
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
		want(t, err)
		_, err = c.Pools(t.Context())
		want(t, err)
	})
	bubble(t, "says since when, of a leader that had the request until then", func(t *testing.T) {
		lost := fault{
			delay: 20 * time.Second, status: http.StatusServiceUnavailable,
			header: http.Header{"Content-Type": {leaseapi.ContentTypeProblem}},
			body:   `{"type":"` + leaseapi.ProblemNotLeader + `"}`,
		}
		c, g := newGroup(t, "", lost)
		c.servers.bases = c.servers.bases[:1]
		time.AfterFunc(time.Minute, func() { g.lead("a.test") })
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour, OnTrouble: func(err error, since time.Time) {
			if err != nil && since.Sub(start) != lost.delay {
				t.Errorf("nobody leads since %v after the start, want %v", since.Sub(start), lost.delay)
			}
		}})
		want(t, err)
	})
	bubble(t, "after it was queued", func(t *testing.T) {
		c, g := newGroup(t, "a.test")
		g.ours.mu.Lock()
		g.ours.free = nil
		g.ours.mu.Unlock()
		time.AfterFunc(40*time.Second, func() { g.lead("") })
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: 5 * time.Minute})
		want(t, err, ErrUnreachable)
		want(t, err, ErrUnconfirmed) // the next leader may grant it
	})
	bubble(t, "does not wait", func(t *testing.T) {
		c, _ := newGroup(t, "")
		_, err := c.Pools(t.Context())
		want(t, err, ErrUnreachable)
	})
	bubble(t, "in the middle of a wait", func(t *testing.T) {
		c, g := newGroup(t, "a.test")
		g.ours.mu.Lock()
		g.ours.free = nil
		g.ours.mu.Unlock()
		time.AfterFunc(40*time.Second, func() { g.lead("") })
		time.AfterFunc(45*time.Second, func() { g.lead("c.test") })
		g.freeAfter(50*time.Second, "a")
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
		want(t, err)
	})
}

// A server that does not lead is asked again on a new connection: a balancer leads that to another server.
func TestStandbyBehindABalancer(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		g := &group{ours: newOurs(t, "a")}
		c, m := serve(t, g)
		time.AfterFunc(20*time.Second, func() { g.lead("proxy.test") })
		_, err := c.Acquire(t.Context(), hour)
		want(t, err)
		if asked := len(g.hosts()); m.dialled() != asked || asked < 2 {
			t.Errorf("asked %d times on %d connections", asked, m.dialled())
		}
	})
}

// The first server of a list may take a request and not answer. The request is then sent to
// the server that answers instead, long before a single server would be asked about its silence.
func TestAcquireFromAListWithASilentServer(t *testing.T) {
	bubble(t, "the first", func(t *testing.T) {
		c, g := newGroup(t, "b.test")
		g.silent = "a.test"
		start := time.Now()
		_, err := c.Acquire(t.Context(), hour)
		want(t, err)
		if took := time.Since(start); took != askEarly+quickTime || g.granted["id"] != 1 {
			t.Errorf("took %v, granted %d times", took, g.granted["id"])
		}
	})
	bubble(t, "the first, and another has yet to take over", func(t *testing.T) {
		c, g := newGroup(t, "")
		g.silent = "a.test"
		time.AfterFunc(8*time.Second, func() { g.lead("c.test") })
		start := time.Now()
		_, err := c.Acquire(t.Context(), hour)
		want(t, err)
		if took := time.Since(start); took > 8*time.Second+quickTime+electionPause {
			t.Errorf("took %v", took)
		}
	})
	bubble(t, "the one that led, as the first says", func(t *testing.T) {
		c, g := newGroup(t, "")
		g.silent, g.names = "b.test", "http://b.test/prefix"
		time.AfterFunc(8*time.Second, func() { g.lead("c.test") })
		start := time.Now()
		_, err := c.Acquire(t.Context(), hour)
		want(t, err)
		if took := time.Since(start); took > 8*time.Second+quickTime+electionPause {
			t.Errorf("took %v", took)
		}
	})
	bubble(t, "one behind an address that said before that it does not lead", func(t *testing.T) {
		c, g := newGroup(t, "")
		c.servers.bases = c.servers.bases[:1]
		time.AfterFunc(time.Second, func() { g.hang("a.test") })
		time.AfterFunc(8*time.Second, func() { g.hang(""); g.lead("a.test") })
		start := time.Now()
		_, err := c.Acquire(t.Context(), hour)
		want(t, err)
		if took := time.Since(start); took > 7*time.Second+sliceTime { // Retry-After
			t.Errorf("took %v", took)
		}
	})
	bubble(t, "none: one that waits keeps its connection", func(t *testing.T) {
		c, g := newGroup(t, "a.test")
		g.ours.free = nil
		g.freeAfter(20*time.Second, "a")
		_, err := c.Acquire(t.Context(), hour)
		want(t, err)
		if len(g.acquires) != 2 { // in the first slice, and the second
			t.Errorf("sent %d times", len(g.acquires))
		}
	})
}

// A silent server of a list has a share of a release's time, and never more than quickTime.
func TestReleaseAtAListWithASilentServer(t *testing.T) {
	byID := leaseapi.ReleaseRequest{RequestIDs: []string{"id"}}
	byName := leaseapi.ReleaseRequest{Names: []string{"a"}, Owner: "me"}
	for _, tt := range []struct {
		name string
		req  leaseapi.ReleaseRequest
		time time.Duration // that the release has
		want time.Duration
	}{
		{"in 3 s", byID, 3 * time.Second, time.Second},
		{"with time enough", byID, time.Minute, quickTime},
		{"by name, in 3 s", byName, 3 * time.Second, time.Second},
		{"by name, with time enough", byName, time.Minute, quickTime},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			c, g := newGroup(t, "c.test")
			g.silent = "a.test"
			ctx, cancel := context.WithTimeout(t.Context(), tt.time)
			defer cancel()
			start := time.Now()
			_, err := c.Release(ctx, tt.req)
			want(t, err)
			if took := time.Since(start); took != tt.want {
				t.Errorf("took %v", took)
			}
		})
	}
}

// What answers instead of a server of a list is left, once in each round.
func TestGatewaysOfAList(t *testing.T) {
	for name, instead := range map[string]fault{
		"502": badGateway, "503": status(503), "504": {status: 504}, "500": status(500), "429": status(429),
		"a page":         htmlPage,
		"that finds not": {status: 404, body: "<html>not found</html>"},
	} {
		dead := map[string]fault{"a.test": instead}
		for _, leader := range []string{"b.test", "c.test"} {
			bubble(t, name+", and "+leader+" leads", func(t *testing.T) {
				for _, wait := range []time.Duration{0, time.Hour} {
					c, g := newGroup(t, leader)
					g.gateways = dead
					start := time.Now()
					got, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: wait})
					want(t, err)
					again := func() { c.servers.current.Store(0) }
					again()
					_, err = c.Renew(t.Context(), got.Leases, 0)
					want(t, err)
					again()
					_, err = c.Pools(t.Context())
					want(t, err)
					again()
					_, err = c.Release(t.Context(), Releasing(got.Leases, ""))
					want(t, err)
					if took := time.Since(start); took > maxPause {
						t.Errorf("took %v", took)
					}
				}
			})
		}
		bubble(t, name+", and another has yet to take over", func(t *testing.T) {
			c, g := newGroup(t, "a.test")
			got, err := c.Acquire(t.Context(), hour)
			want(t, err)
			g.mu.Lock()
			g.leader, g.gateways = "", dead
			g.mu.Unlock()
			time.AfterFunc(8*time.Second, func() { g.lead("c.test") })
			start := time.Now()
			_, err = c.Release(t.Context(), Releasing(got.Leases, ""))
			want(t, err)
			if took := time.Since(start); took > 8*time.Second+electionPause {
				t.Errorf("took %v", took)
			}
		})
	}
	bubble(t, "all of them", func(t *testing.T) {
		c, g := newGroup(t, "a.test")
		g.gateways = map[string]fault{"a.test": badGateway, "b.test": badGateway, "c.test": badGateway}
		start := time.Now()
		_, err := c.Pools(t.Context())
		want(t, err, ErrUnreachable)
		if took := time.Since(start); took < maxTrouble || !strings.Contains(err.Error(), "502") {
			t.Errorf("after %v: %v", took, err)
		}
	})
	bubble(t, "a server of ours that cannot is asked again", func(t *testing.T) {
		c, g := newGroup(t, "a.test", problemFault(503, leaseapi.ProblemUnavailable))
		_, err := c.Pools(t.Context())
		want(t, err)
		if asked := g.hosts(); !slices.Equal(asked, []string{"a.test"}) {
			t.Errorf("asked %v", asked)
		}
	})
}

// A server of a list whose certificate cannot be verified is left, once in each round. The call ends
// at once only if that is so for all of them.
func TestCertificatesOfAList(t *testing.T) {
	expired := x509.CertificateInvalidError{Reason: x509.Expired}
	bubble(t, "one", func(t *testing.T) {
		c, g := newGroup(t, "c.test")
		g.certificates = map[string]error{"a.test": expired}
		start := time.Now()
		got, err := c.Acquire(t.Context(), hour)
		want(t, err)
		_, err = c.Release(t.Context(), Releasing(got.Leases, ""))
		want(t, err)
		if took := time.Since(start); took > 0 {
			t.Errorf("took %v", took)
		}
	})
	for _, bad := range []string{"a.test", "b.test", "c.test"} {
		bubble(t, bad+", and another has yet to take over", func(t *testing.T) {
			c, g := newGroup(t, "")
			g.certificates = map[string]error{bad: expired}
			leader := "a.test"
			if bad == leader {
				leader = "c.test"
			}
			time.AfterFunc(8*time.Second, func() { g.lead(leader) })
			start := time.Now()
			_, err := c.Acquire(t.Context(), hour)
			want(t, err)
			if took := time.Since(start); took > 8*time.Second+electionPause {
				t.Errorf("took %v", took)
			}
		})
		bubble(t, bad+", and the others are down", func(t *testing.T) {
			c, g := newGroup(t, "")
			g.certificates = map[string]error{bad: expired}
			g.gateways = map[string]fault{"a.test": badGateway, "b.test": badGateway, "c.test": badGateway}
			start := time.Now()
			_, err := c.Pools(t.Context())
			want(t, err, ErrUnreachable)
			if took := time.Since(start); took < maxTrouble {
				t.Errorf("after %v: %v", took, err)
			}
		})
	}
	bubble(t, "all", func(t *testing.T) {
		c, g := newGroup(t, "c.test")
		unknown := x509.UnknownAuthorityError{}
		g.certificates = map[string]error{"a.test": expired, "b.test": unknown, "c.test": unknown}
		start := time.Now()
		_, err := c.Acquire(t.Context(), hour)
		if err == nil || !strings.Contains(err.Error(), "acquire: http://a.test: ") || !strings.Contains(err.Error(), "expired") || errors.Is(err, ErrUnreachable) {
			t.Error(err)
		}
		if asked := g.hosts(); time.Since(start) > 0 || !slices.Equal(asked, []string{"a.test", "b.test", "c.test"}) {
			t.Errorf("asked %v in %v", asked, time.Since(start))
		}
	})
}

// Servers with different stores are refused as one proxy.
func TestTwoStores(t *testing.T) {
	bubble(t, "two", func(t *testing.T) {
		c, g := newGroup(t, "b.test")
		g.stores = map[string]string{"b.test": "TWO"}
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
		want(t, err, ErrTwoStores)
		_, err = c.Pools(t.Context())
		want(t, err, ErrTwoStores)
	})
}
