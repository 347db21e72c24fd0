package proxyclient

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver"
)

var (
	badNetworks    = flag.Int("networks", 400, "networks of TestBadNetworks: 100000, for a whole campaign")
	badNetworkSeed = flag.Uint64("network-seed", 0, "runs only this network of TestBadNetworks")
)

// A badNetwork is inside the process, and disturbs bytes on their way at random. Both directions of a
// connection are disturbed on their own.
type badNetwork struct {
	accepted chan net.Conn
	closed   chan struct{}
	work     sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	bad    int // how many of a hundred dials and of a hundred reads are disturbed
	did    map[disturbance]int
}

// disturbance is what happens to bytes on their way.
type disturbance string

const (
	undisturbed disturbance = ""
	dialRefusal disturbance = "connection refused"
	dialSilent  disturbance = "no answer to a dial"
	cutBefore   disturbance = "cut before"
	cutInside   disturbance = "cut inside"
	cutAfter    disturbance = "cut after"
	delayed     disturbance = "late"
	lostForGood disturbance = "lost, as all that follows"
	again       disturbance = "twice"
	againLater  disturbance = "again before the next" // in the same direction
	copied      disturbance = "a copy of the request on another connection"
)

var disturbances = []disturbance{cutBefore, cutInside, cutAfter, delayed, lostForGood, again, againLater, copied}

// longestDelay is how late bytes may be: some calls give up before that.
const longestDelay = 40 * time.Second

func newBadNetwork(random *rand.Rand) *badNetwork {
	return &badNetwork{accepted: make(chan net.Conn), closed: make(chan struct{}), random: random, bad: 5 + random.IntN(35), did: make(map[disturbance]int)}
}

// Accept implements [net.Listener].
func (n *badNetwork) Accept() (net.Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (n *badNetwork) Close() error {
	close(n.closed)
	return nil
}

// Addr implements [net.Listener].
func (n *badNetwork) Addr() net.Addr { return &net.UnixAddr{Name: "bad", Net: "unix"} }

func (n *badNetwork) draw(limit int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.random.IntN(limit)
}

func (n *badNetwork) delay() time.Duration {
	most := longestDelay
	if n.draw(2) == 0 {
		most = time.Second
	}
	return time.Duration(n.draw(int(most)))
}

// disturb returns one of what may happen, or most often nothing.
func (n *badNetwork) disturb(what ...disturbance) disturbance {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.random.IntN(100) >= n.bad {
		return undisturbed
	}
	d := what[n.random.IntN(len(what))]
	n.did[d]++
	return d
}

// calm ends the disturbances.
func (n *badNetwork) calm() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bad = 0
}

// direct connects to the server without disturbances.
func (n *badNetwork) direct(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.accepted <- server:
		return client, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// dial connects to the server through the network.
func (n *badNetwork) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	switch n.disturb(dialRefusal, dialSilent) {
	case dialRefusal:
		return nil, &net.OpError{Op: "dial", Net: "bad", Err: syscall.ECONNREFUSED}
	case dialSilent:
		silent, cancel := context.WithTimeout(ctx, dialer().Timeout) // the real dialer gives up, too
		defer cancel()
		<-silent.Done()
		return nil, &net.OpError{Op: "dial", Net: "bad", Err: silent.Err()}
	}
	up, err := n.direct(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	client, down := net.Pipe()
	n.work.Go(func() { n.pass(down, up, true) })
	n.work.Go(func() { n.pass(up, down, false) })
	return client, nil
}

// pass forwards what one end sends to the other, until an end closes the connection.
func (n *badNetwork) pass(from, to net.Conn, requests bool) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	var pending []byte
	for {
		size, err := from.Read(buf)
		if err != nil {
			return
		}
		b := slices.Clone(buf[:size])
		kinds := disturbances
		if !requests {
			kinds = kinds[:len(kinds)-1]
		}
		out, end := append(pending, b...), false
		pending = nil
		switch n.disturb(kinds...) {
		case cutBefore:
			return
		case cutInside:
			out, end = out[:n.draw(len(out))], true
		case cutAfter:
			end = true
		case delayed:
			time.Sleep(n.delay())
		case lostForGood:
			for err == nil {
				_, err = from.Read(buf)
			}
			return
		case again:
			out = append(out, n.tail(b)...)
		case againLater:
			pending = n.tail(b)
		case copied:
			n.work.Go(func() { n.copy(b, n.delay()) })
		}
		if _, err := to.Write(out); err != nil || end {
			return
		}
	}
}

// tail returns the end of b, or all of it.
func (n *badNetwork) tail(b []byte) []byte { return b[n.draw(2)*n.draw(len(b)):] }

// copy delivers a request once more, and hears no answer.
func (n *badNetwork) copy(request []byte, after time.Duration) {
	time.Sleep(after)
	c, err := n.direct(context.Background(), "", "")
	if err != nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(n.delay()))
	c.Write(request)
	for buf := make([]byte, 1<<10); err == nil; {
		_, err = c.Read(buf)
	}
}

// client returns a client that connects by dial.
func (n *badNetwork) client(t *testing.T, dial dialFunc) *Client {
	t.Helper()
	c, err := New(Options{URL: "http://proxy.test"})
	if err != nil {
		t.Fatal(err)
	}
	c.transport.Proxy = nil
	c.transport.DialContext = tracked(dial)
	return c
}

// badJob is a client on a bad network, and what it was told of its leases.
type badJob struct {
	*badRun
	owner  string
	client *Client
	random *rand.Rand

	typ      string
	leases   []leaseapi.Lease // that it holds until deadline; nil: none
	deadline Instant
	units    int // of its one lease of a counted pool; zero: not known
	decided  int
}

// badRun is a network, a server behind it, and what all jobs were told.
type badRun struct {
	t       *testing.T
	network *badNetwork
	truth   *Client // is not disturbed

	mu      sync.Mutex
	granted map[uint64]string // whom, by generation
}

const badTTL = time.Minute

// work makes calls at random.
func (j *badJob) work(ctx context.Context) {
	for range 3 + j.random.IntN(5) {
		time.Sleep(time.Duration(j.random.Int64N(int64(20 * time.Second))))
		j.check(ctx)
		if j.leases == nil || Until(j.deadline) <= 0 {
			j.leases = nil
			j.acquire(ctx, nil)
			continue
		}
		switch j.random.IntN(7) {
		case 0, 1, 2:
			j.renew(ctx)
		case 3:
			j.keep(ctx)
		case 4:
			j.resize(ctx)
		case 5:
			if can, err := j.client.CanSwap(ctx); err == nil && can {
				j.acquire(ctx, j.leases)
			}
		case 6:
			j.release(ctx)
		}
		j.check(ctx)
	}
}

// check asks the server whether it has what the job was told that it holds.
func (j *badJob) check(ctx context.Context) {
	j.t.Helper()
	if j.leases == nil {
		return
	}
	held := j.held(ctx, j.leases)
	switch {
	case Until(j.deadline) <= 0:
	case len(held) != len(j.leases):
		j.t.Errorf("%s holds %v for %v more, and the server has %+v", j.owner, j.leases, Until(j.deadline), held)
	case j.units > 0 && held[0].Units != j.units:
		j.t.Errorf("%s holds %d units of %v, and the server has %+v", j.owner, j.units, j.leases, held)
	}
}

// held returns which of leases the server has; nil stands for all.
func (r *badRun) held(ctx context.Context, leases []leaseapi.Lease) (held []leaseapi.PoolLease) {
	pools, err := r.truth.Pools(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range pools {
		for _, l := range p.Leases {
			if leases == nil || slices.ContainsFunc(leases, func(w leaseapi.Lease) bool { return w.Name == l.Name && w.Generation == l.Generation }) {
				held = append(held, l)
			}
		}
	}
	return held
}

// allow reports an error that the call cannot have on a bad network.
func (j *badJob) allow(what string, err error, allowed ...error) {
	j.t.Helper()
	if _, failing := errors.AsType[*FailingError](err); failing {
		return
	}
	if !slices.ContainsFunc(append(allowed, ErrUnreachable), func(a error) bool { return errors.Is(err, a) }) {
		j.t.Errorf("%s: %s: %v", j.owner, what, err)
	}
}

func (j *badJob) acquire(ctx context.Context, replaces []leaseapi.Lease) {
	r := Request{Type: "names", Count: 1 + j.random.IntN(2), Owner: j.owner, TTL: badTTL, Replaces: replaces}
	switch j.random.IntN(4) {
	case 0:
		r.Type, r.Count = "units", 1+j.random.IntN(8)
	case 1:
		r.Also = []leaseapi.Also{{Type: "units", Count: 1 + j.random.IntN(8)}}
	}
	if j.random.IntN(4) > 0 {
		r.Wait = time.Duration(j.random.Int64N(int64(90 * time.Second)))
	}
	taken := false
	r.OnTaken = func() { taken = true }
	cancelled := ctx
	if j.random.IntN(4) == 0 {
		var cancel context.CancelFunc
		cancelled, cancel = context.WithTimeout(ctx, time.Duration(j.random.Int64N(int64(time.Minute))))
		defer cancel()
	}
	g, err := j.client.Acquire(cancelled, r)
	if err != nil {
		j.allow("acquire", err, ErrExhausted, ErrUnconfirmed, context.DeadlineExceeded, ErrEnded)
		if ended, ok := errors.AsType[*EndedError](err); ok && !ended.Unconfirmed {
			j.t.Errorf("%s: acquire: %v: who ended it?", j.owner, err)
		}
		if taken || replaces == nil {
			j.leases = nil
		}
		return
	}
	if replaces != nil && len(j.held(ctx, replaces)) > 0 {
		j.t.Errorf("%s: %v were replaced, and the server has them", j.owner, replaces)
	}
	j.typ, j.leases, j.deadline, j.decided, j.units = r.Type, g.Leases, g.Deadline(), 0, 0
	if r.Type == "units" {
		j.units = r.Count
	}
	if want := r.Count; r.Type == "names" && len(g.Leases) != want+len(r.Also) || r.Type == "units" && len(g.Leases) != 1 {
		j.t.Errorf("%s: acquire of %d %s and %v: granted %+v", j.owner, r.Count, r.Type, r.Also, g.Leases)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range g.Leases {
		if other := j.granted[l.Generation]; other != "" {
			j.t.Errorf("%s was granted %v, as %s was before", j.owner, l, other)
		}
		j.granted[l.Generation] = j.owner
	}
}

func (j *badJob) renew(ctx context.Context) {
	r, err := j.client.Renew(ctx, j.leases, badTTL)
	if err == nil {
		j.deadline = r.Deadline
		return
	}
	j.allow("renew", err, ErrLost)
	j.lost(ctx, err)
}

// lost notes that err says that leases are lost.
func (j *badJob) lost(ctx context.Context, err error) {
	e, ok := errors.AsType[*LostError](err)
	if !ok {
		return
	}
	var names []leaseapi.Lease
	for _, l := range e.Lost {
		names = append(names, leaseapi.Lease{Name: l.Name, Generation: l.Generation})
	}
	if held := j.held(ctx, names); names != nil && len(held) > 0 {
		j.t.Errorf("%s: %v, and the server has %+v", j.owner, err, held)
	}
	if names != nil && Until(j.deadline) > 0 {
		j.t.Errorf("%s: %v, %v before its deadline", j.owner, err, Until(j.deadline))
	}
	j.leases = nil
}

// keep renews the leases for a while. (A [Heartbeat] would notice a suspend of the machine by a file
// of the kernel, which knows no bubble.)
func (j *badJob) keep(ctx context.Context) {
	for end := Now().Add(time.Duration(j.random.Int64N(int64(2 * time.Minute)))); j.leases != nil && Until(end) > 0 && Until(j.deadline) > 0; {
		j.renew(ctx)
		Sleep(ctx, badTTL/4)
	}
}

func (j *badJob) resize(ctx context.Context) {
	if j.units == 0 {
		return
	}
	to := 1 + j.random.IntN(9)
	l := j.leases[0]
	reply, err := j.client.Resize(ctx, leaseapi.ResizeRequest{Name: l.Name, Generation: l.Generation, From: j.units, After: &j.decided, Count: to})
	switch {
	case err == nil:
		j.units, j.decided = to, reply.Resizes
	case errors.Is(err, ErrNoRoom): // also decided, so that a late copy is not carried out
		j.decided = reply.Resizes
	default:
		j.allow("resize", err, ErrLost)
		j.units = 0
		j.lost(ctx, err)
	}
}

func (j *badJob) release(ctx context.Context) {
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// A release by names alone would end a later lease of the same owner if the network kept it for so
	// long: its age counts from its arrival.
	_, err := j.client.Release(short, leaseapi.ReleaseRequest{Leases: j.leases})
	if err != nil {
		j.allow("release", err, context.DeadlineExceeded)
	} else if held := j.held(ctx, j.leases); len(held) > 0 {
		j.t.Errorf("%s released %v, and the server has %+v", j.owner, j.leases, held)
	}
	j.leases = nil
}

// runBadNetwork lets jobs work on a network, and checks what is left.
func runBadNetwork(t *testing.T, seed uint64) (did map[disturbance]int) {
	random := rand.New(rand.NewPCG(seed, 0))
	n := newBadNetwork(random)
	server, err := proxyserver.New(proxyserver.Options{Pools: []pool.Config{{Type: "units", Units: 10}, {Type: "names", Names: []string{"a", "b", "c"}}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, n) }()
	run := &badRun{t: t, network: n, truth: n.client(t, n.direct), granted: make(map[uint64]string)}
	var jobs []*badJob
	var working sync.WaitGroup
	for i := range 3 {
		j := &badJob{badRun: run, owner: fmt.Sprint("job-", i), client: n.client(t, n.dial), random: rand.New(rand.NewPCG(seed, uint64(i)+1))}
		jobs = append(jobs, j)
		working.Go(func() { j.work(ctx) })
	}
	working.Wait()
	n.calm()
	for _, j := range jobs {
		j.client.Close()
		if j.leases != nil {
			if _, err := j.client.Release(ctx, leaseapi.ReleaseRequest{Leases: j.leases}); err != nil {
				t.Errorf("%s: release on a good network: %v", j.owner, err)
			}
		}
	}
	time.Sleep(badTTL + longestDelay + leaseapi.ProvisionalTTL)
	pools, err := run.truth.Pools(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pools {
		if p.InUse+p.Waiting > 0 {
			t.Errorf("at the end %s has %+v", p.Type, p)
		}
	}
	for _, j := range jobs {
		j.client.Close()
	}
	run.truth.Close()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	n.work.Wait()
	return n.did
}

// Jobs make their calls on networks that cut, delay, lose, repeat and copy what they carry. No
// lease has two holders; what a job was told is true, at once and until its deadline; a call fails
// only as its comment says; and all that failed calls leave is gone after the TTL. Time is that of a
// bubble, so a network takes milliseconds.
//
//	go test ./proxyclient -run TestBadNetworks -networks 100000 -timeout 2h
func TestBadNetworks(t *testing.T) {
	if *badNetworkSeed != 0 {
		synctest.Test(t, func(t *testing.T) { runBadNetwork(t, *badNetworkSeed) })
		return
	}
	first := rand.Uint64()
	log.SetOutput(io.Discard) // net/http tells it of bytes that nobody waited for
	defer log.SetOutput(os.Stderr)
	did := make(map[disturbance]int)
	for i := range *badNetworks {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			for d, n := range runBadNetwork(t, seed) {
				did[d] += n
			}
			if t.Failed() {
				t.Logf("again with: go test ./proxyclient -run TestBadNetworks -network-seed %d", seed)
			}
		})
	}
	t.Logf("%d networks from seed %d: %v", *badNetworks, first, did)
	for _, d := range append([]disturbance{dialRefusal, dialSilent}, disturbances...) {
		if did[d] == 0 {
			t.Errorf("never: %s", d)
		}
	}
}
