package proxyclient

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver"
	"github.com/leasectl/leasectl/leaseapi"
)

var (
	badNetworks    = flag.Int("networks", 400, "networks of TestBadNetworks: 100000, for a whole campaign")
	badNetworkSeed = flag.Uint64("network-seed", 0, "runs only this network of TestBadNetworks")
)

// badRun is a network, a server behind it, and what the jobs were told.
type badRun struct {
	t       *testing.T
	network *badNetwork
	truth   *Client // is not disturbed

	mu      sync.Mutex
	granted map[uint64]string           // whom, by generation
	ended   map[uint64]bool             // generations that have ended, as a job was told
	over    map[string][]leaseapi.Lease // by owner who has no waiter, as a job was told: all leases that may be left
	results map[string]int              // how often a call ended in that way
}

// lists returns the leases that the server has, and checks that no job was told otherwise.
func (r *badRun) lists(ctx context.Context) (leases []leaseapi.PoolLease) {
	r.t.Helper()
	r.mu.Lock()
	ended, over := maps.Clone(r.ended), maps.Clone(r.over)
	r.mu.Unlock()
	pools, err := r.truth.Pools(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, p := range pools {
		if p.InUse > p.Capacity {
			r.t.Errorf("%d of %d are in use: %+v", p.InUse, p.Capacity, p.Leases)
		}
		for _, l := range p.Leases {
			if names[l.Name] {
				r.t.Errorf("%s has two holders: %+v", l.Name, p.Leases)
			}
			names[l.Name] = true
			left, none := over[l.Owner]
			if ended[l.Generation] || none && !slices.ContainsFunc(left, func(w leaseapi.Lease) bool { return w.Generation == l.Generation }) {
				r.t.Errorf("%s was told that it does not hold %+v", l.Owner, l)
			}
		}
		for _, w := range p.Waiters {
			if _, none := over[w.Owner]; none {
				r.t.Errorf("%s was told that it does not wait: %+v", w.Owner, w)
			}
		}
		leases = append(leases, p.Leases...)
	}
	return leases
}

// held returns which of leases the server has.
func (r *badRun) held(ctx context.Context, leases []leaseapi.Lease) []leaseapi.PoolLease {
	r.t.Helper()
	return slices.DeleteFunc(r.lists(ctx), func(l leaseapi.PoolLease) bool {
		return !slices.ContainsFunc(leases, func(w leaseapi.Lease) bool { return w.Name == l.Name && w.Generation == l.Generation })
	})
}

// badJob is a client on a bad network, and what it was told of its leases.
type badJob struct {
	*badRun
	name    string
	client  *Client
	random  *rand.Rand
	owner   string // of its leases; each request has another, unless it replaces leases
	owners  int
	unclear bool // whether the owner has more than leases

	leases   []leaseapi.Lease // that it holds until deadline; nil: none
	deadline Instant
	units    int // of its one lease of a counted pool; zero: not known
	decided  int
}

const badTTL = time.Minute

// work makes calls at random.
func (j *badJob) work(ctx context.Context) {
	for range 3 + j.random.IntN(5) {
		time.Sleep(time.Duration(j.random.Int64N(int64(20 * time.Second))))
		j.check(ctx)
		if j.leases == nil || Until(j.deadline) <= 0 {
			j.acquire(ctx, nil)
			continue
		}
		switch j.random.IntN(8) {
		case 0, 1, 2:
			j.renew(ctx)
		case 3:
			j.keep(ctx)
		case 4:
			j.resize(ctx)
		case 5:
			j.acquire(ctx, j.leases)
		case 6:
			j.release(ctx)
		case 7: // holds them as long as it may
			Sleep(ctx, Until(j.deadline)-time.Nanosecond)
		}
		j.check(ctx)
	}
}

// check asks the server whether it has what the job was told that it holds.
func (j *badJob) check(ctx context.Context) {
	j.t.Helper()
	held := j.held(ctx, j.leases)
	switch {
	case j.leases == nil || Until(j.deadline) <= 0:
	case len(held) != len(j.leases):
		j.t.Errorf("%s holds %v for %v more, and the server has %+v", j.owner, j.leases, Until(j.deadline), held)
	case j.units > 0 && held[0].Units != j.units:
		j.t.Errorf("%s holds %d units of %v, and the server has %+v", j.owner, j.units, j.leases, held)
	case slices.ContainsFunc(held, func(l leaseapi.PoolLease) bool { return l.Owner != j.owner }):
		j.t.Errorf("%s holds leases of others: %+v", j.owner, held)
	}
}

// ends notes that the server has none of the leases.
func (j *badJob) ends() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.leases {
		j.ended[l.Generation] = true
	}
	j.leases = nil
}

// leave forgets the leases, which the server may have. It notes that the server has nothing else.
func (j *badJob) leave() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.unclear {
		j.over[j.owner] = j.leases
	}
	j.leases = nil
}

// note counts a result.
func (j *badJob) note(what string, err error) {
	j.network.tell("%s: %s: %v", j.owner, what, err)
	result := "done"
	for _, e := range []error{ErrUnconfirmed, ErrExhausted, ErrUnreachable, ErrLost, ErrEnded, ErrNoRoom, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			result = e.Error()
			break
		}
	}
	if err != nil && result == "done" {
		result = "another error"
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.results[what+": "+result]++
}

// allow reports an error that the call cannot have on a bad network.
func (j *badJob) allow(what string, err error, allowed ...error) {
	j.t.Helper()
	j.note(what, err)
	if _, failing := errors.AsType[*FailingError](err); failing {
		return
	}
	if !slices.ContainsFunc(append(allowed, ErrUnreachable), func(a error) bool { return errors.Is(err, a) }) {
		j.t.Errorf("%s: %s: %v", j.owner, what, err)
	}
}

// acquire makes a request, which may replace the leases.
func (j *badJob) acquire(ctx context.Context, replaces []leaseapi.Lease) {
	if replaces == nil {
		j.owners++
		j.owner, j.leases, j.unclear = fmt.Sprintf("%s-%d", j.name, j.owners), nil, false
	}
	r := Request{Ask: leaseapi.Ask{Type: "names", Count: 1 + j.random.IntN(2)}, Owner: j.owner, TTL: badTTL, Replaces: replaces}
	switch j.random.IntN(6) {
	case 0, 1:
		r.Type, r.Count = "units", 1+j.random.IntN(8)
	case 2:
		r.Also = []leaseapi.Also{{Type: "units", Count: 1 + j.random.IntN(8)}}
	}
	if j.random.IntN(4) > 0 {
		r.Wait = time.Duration(j.random.Int64N(int64(90 * time.Second)))
	}
	taken := false
	r.OnTaken = func() { taken = true }
	if j.random.IntN(4) == 0 {
		cancelled, cancel := context.WithTimeout(ctx, time.Duration(j.random.Int64N(int64(time.Minute))))
		defer cancel()
		ctx = cancelled
	}
	g, err := j.client.Acquire(ctx, r)
	if err != nil {
		j.allow("acquire", err, ErrExhausted, ErrUnconfirmed, context.DeadlineExceeded, ErrEnded)
		if ended, ok := errors.AsType[*EndedError](err); ok && !ended.Unconfirmed {
			j.t.Errorf("%s: acquire: %v: who ended it?", j.owner, err)
		}
		// A server forgets a request that it denied: a late copy waits anew, and may get a provisional grant.
		j.unclear = j.unclear || errors.Is(err, ErrUnconfirmed) || errors.Is(err, ErrExhausted)
		if taken || replaces == nil {
			j.leave()
		}
		return
	}
	j.note("acquire", nil)
	if replaces != nil {
		j.ends()
	}
	j.leases, j.deadline, j.decided, j.units = g.Leases, g.Deadline(), 0, 0
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
		j.note("renew", nil)
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
	j.mu.Lock()
	for _, l := range e.Lost {
		j.ended[l.Generation] = true
	}
	j.mu.Unlock()
	if len(e.Lost) > 0 && Until(j.deadline) > 0 {
		j.t.Errorf("%s: %v, %v before its deadline", j.owner, err, Until(j.deadline))
	}
	j.leave()
	j.lists(ctx)
}

// keep lets a heartbeat keep the leases for a while.
func (j *badJob) keep(ctx context.Context) {
	short, cancel := context.WithTimeout(ctx, time.Duration(j.random.Int64N(int64(2*time.Minute))))
	defer cancel()
	h := Heartbeat{Client: j.client, Leases: j.leases, Deadline: j.deadline, Margin: 2 * time.Second, OnRenew: func(r Renewal) { j.deadline = r.Deadline }}
	err := h.Run(short)
	j.allow("heartbeat", err, ErrLost, context.DeadlineExceeded)
	j.lost(ctx, err)
}

func (j *badJob) resize(ctx context.Context) {
	for range 1 + j.random.IntN(4) {
		if j.units > 0 {
			j.resizeTo(ctx, 1+j.random.IntN(9))
			j.check(ctx)
		}
	}
}

func (j *badJob) resizeTo(ctx context.Context, to int) {
	l := j.leases[0]
	reply, err := j.client.Resize(ctx, leaseapi.ResizeRequest{Name: l.Name, Generation: l.Generation, From: j.units, After: &j.decided, Count: to})
	switch {
	case err == nil && reply.Units != to:
		j.t.Errorf("%s resized %v to %d units, and holds %d", j.owner, l, to, reply.Units)
	case err == nil:
		j.note("resize", nil)
		j.units, j.decided = to, reply.Resizes
	case errors.Is(err, ErrNoRoom): // also decided, so that a late copy is not carried out
		if reply.Units != j.units {
			j.t.Errorf("%s: %v, and holds %d units instead of %d", j.owner, err, reply.Units, j.units)
		}
		j.note("resize", ErrNoRoom)
		j.decided = reply.Resizes
	default:
		j.allow("resize", err, ErrLost)
		j.units = 0
		j.lost(ctx, err)
	}
}

// release gives the leases back, some by their names. (A late copy of a release by names would end a
// later lease of the same owner, since their age counts from its arrival; the next request has another
// owner.)
func (j *badJob) release(ctx context.Context) {
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var err error
	if leases := j.leases; j.random.IntN(3) == 0 {
		n := NamesRelease{Owner: j.owner, Learned: time.Now()}
		for _, l := range leases {
			n.Names = append(n.Names, l.Name)
		}
		_, err = j.client.ReleaseNames(short, n)
	} else {
		_, err = j.client.Release(short, leaseapi.ReleaseRequest{Leases: leases})
	}
	if err != nil {
		j.allow("release", err, context.DeadlineExceeded)
	} else {
		j.note("release", nil)
		j.ends()
	}
	j.leave()
	j.lists(ctx)
}

// runBadNetwork lets jobs work on a network, and checks what is left.
func runBadNetwork(t *testing.T, seed uint64) (did map[disturbance]int, results map[string]int) {
	newMachine(t)
	random := rand.New(rand.NewPCG(seed, 0))
	n := newBadNetwork(random)
	server, err := proxyserver.New(proxyserver.Options{Pools: []pool.Config{{Type: "units", Units: 10}, {Type: "names", Names: []string{"a", "b", "c"}}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, n) }()
	run := &badRun{t: t, network: n, truth: n.client(t, "http://proxy.test", n.direct), granted: make(map[uint64]string), ended: make(map[uint64]bool), over: make(map[string][]leaseapi.Lease), results: make(map[string]int)}
	urls := "http://proxy.test"
	if random.IntN(3) == 0 {
		urls += ",http://other.test"
	}
	var jobs []*badJob
	var working sync.WaitGroup
	for i := range 3 {
		j := &badJob{badRun: run, name: fmt.Sprint("job-", i), client: n.client(t, urls, n.dial), random: rand.New(rand.NewPCG(seed, uint64(i)+1))}
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
			j.ends()
			j.leave()
		}
	}
	run.lists(ctx)
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
	if t.Failed() {
		t.Logf("again with: go test ./proxyclient -run TestBadNetworks -network-seed %d\n%s", seed, strings.Join(n.story, "\n"))
	}
	return n.did, run.results
}

// Jobs make their calls on networks that cut, delay, lose and copy what they carry. No
// lease has two holders; what a job was told is true, at once and until its deadline; a call fails
// only as its comment says; and all that failed calls leave is gone after the TTL. Time is that of a
// bubble, so a network takes milliseconds. The seed gives the networks and the calls, but not the
// client's jitter: the log of a failure has all that went over its network.
//
//	go test ./proxyclient -run TestBadNetworks -networks 100000 -timeout 2h
func TestBadNetworks(t *testing.T) {
	if *badNetworkSeed != 0 {
		synctest.Test(t, func(t *testing.T) { runBadNetwork(t, *badNetworkSeed) })
		return
	}
	log.SetOutput(io.Discard) // net/http tells it of bytes that nobody waited for
	defer log.SetOutput(os.Stderr)
	first := rand.Uint64()
	did, results := make(map[disturbance]int), make(map[string]int)
	for i := range *badNetworks {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			d, r := runBadNetwork(t, seed)
			for d, n := range d {
				did[d] += n
			}
			for r, n := range r {
				results[r] += n
			}
		})
	}
	t.Logf("%d networks from seed %d: %v; %v", *badNetworks, first, did, results)
	for _, d := range append([]disturbance{dialRefusal, dialSilent}, disturbances...) {
		if did[d] == 0 && *badNetworks >= 100 {
			t.Errorf("never: %s", d)
		}
	}
}
