package proxyserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// Grants, refusals and reads wait until the state that they were made from is durable.
func TestAnswersWaitForTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, durable(t, t.TempDir(), 1))
		p.server.term.commitSem <- struct{}{} // a commit that takes long
		calls := []struct{ method, target string }{
			{"POST", "/lease/acquire?type=q&request_id=r"},
			{"POST", "/lease/acquire?type=q&wait=0"},
			{"GET", "/lease/requests/r"},
			{"GET", "/lease/requests/unknown"},
			{"GET", "/pools"},
		}
		answers := make(chan reply, len(calls))
		for _, c := range calls {
			go func() {
				r, err := p.try(context.Background(), c.method, c.target, "")
				if err != nil {
					t.Error(err)
				}
				answers <- r
			}()
			synctest.Wait()
		}
		if len(answers) > 0 {
			t.Errorf("%d answers before the commit, one of them %+v", len(answers), <-answers)
		}
		<-p.server.term.commitSem
		for range calls {
			<-answers
		}
		// A read of durable state waits for nothing.
		p.server.term.commitSem <- struct{}{}
		p.do("GET", "/pools", "")
		<-p.server.term.commitSem
	})
}

// A read of a state that is being committed waits for that commit.
func TestReadWaitsForTheCommitUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, durable(t, t.TempDir(), 1))
		p.acquire("type=q")
		p.probe().hold <- struct{}{} // holds up the next commit
		released, read := make(chan reply, 1), make(chan reply, 1)
		go func() { released <- p.do("POST", "/lease/release", `{"names":["q-0"]}`) }()
		synctest.Wait()
		if p.server.term.committing == nil {
			t.Error("no commit is under way")
		}
		go func() { read <- p.do("GET", "/pools", "") }()
		synctest.Wait()
		if len(released)+len(read) > 0 {
			t.Error("it was answered before the commit")
		}
		<-p.probe().hold
		<-released
		<-read
	})
}

// Decisions made from a state that did not become durable are not committed.
func TestNothingIsCommittedAfterAFailure(t *testing.T) {
	dir := t.TempDir()
	p := start(t, durable(t, dir, 1))
	p.acquire("type=q&owner=me")
	p.server.term.commitSem <- struct{}{} // a commit that will fail
	released := make(chan reply, 1)
	go func() { released <- p.do("POST", "/lease/release", `{"names":["q-0"]}`) }()
	eventually(t, func() bool {
		p.server.term.mu.Lock()
		defer p.server.term.mu.Unlock()
		return len(p.server.term.open.changes) > 0
	})
	p.server.term.fail(ErrStore)
	<-p.server.term.commitSem
	decode[leaseapi.Problem](t, <-released, 503)
	p.stop()

	p = start(t, durable(t, dir, 1))
	if n := p.inUse(); n != 1 {
		t.Error("a release was committed that its client was told had failed")
	}
}

// Changes that wait for the same commit go into one transaction.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, durable(t, t.TempDir(), 5))
		p.do("GET", "/pools", "")
		before := p.probe().commits.Load()
		p.server.term.commitSem <- struct{}{}
		var all []<-chan reply
		for range 5 {
			all = append(all, p.later(t.Context(), "type=q"))
		}
		synctest.Wait()
		<-p.server.term.commitSem
		for _, ch := range all {
			if r := <-ch; r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
		}
		if n := p.probe().commits.Load() - before; n != 1 {
			t.Errorf("%d transactions for 5 grants that waited together, want 1", n)
		}
	})
}

// A call that panics ends the server, and holds up no other call.
func TestPanicHalfWay(t *testing.T) {
	p := start(t, durable(t, t.TempDir(), 1))
	p.acquire("type=q&owner=me")
	err := p.server.term.do(func(*pool.Set, time.Duration) { panic("half-way") })
	if !errors.Is(err, errPanicked) || !strings.Contains(err.Error(), "half-way") {
		t.Errorf("the call: %v", err)
	}
	for _, r := range []reply{p.local("POST", "/lease/acquire?type=q&request_id=r", ""), p.local("GET", "/healthz", "")} {
		if pr := decode[leaseapi.Problem](t, r, 503); pr.Detail != err.Error() {
			t.Errorf("problem %+v", pr)
		}
	}
	if err := p.ended(); !errors.Is(err, errPanicked) { // by itself
		t.Errorf("Serve: %v", err)
	}
}

// Many clients, some of them with lost connections, never hold a name together. When all have
// gone, nothing is held.
func TestManyClients(t *testing.T) {
	for _, opts := range []Options{{Pools: []pool.Config{quota(3)}}, durable(t, t.TempDir(), 3)} {
		p := start(t, opts)
		var holders [3]atomic.Int32
		var clients sync.WaitGroup
		for client := range 12 {
			clients.Go(func() {
				r := rand.New(rand.NewPCG(uint64(client), 1)) // the seed matters little: the scheduler decides the order
				for n := range 30 {
					manyClient(t, p, &holders, r, fmt.Sprintf("r%d-%d", client, n))
				}
			})
		}
		clients.Wait()
		if pools := p.pools(); pools[0].InUse != 0 || pools[0].Waiting != 0 {
			t.Errorf("at the end %+v", pools)
		}
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
}

// manyClient acquires and releases once; mostly it gives up its first try after a moment.
func manyClient(t *testing.T, p *peer, holders *[3]atomic.Int32, r *rand.Rand, id string) {
	query := "type=q"
	withID := r.IntN(3) > 0
	if withID {
		query += "&request_id=" + id
	}
	ctx := t.Context()
	if withID && r.IntN(2) == 0 {
		short, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Microsecond)
		defer cancel()
		ctx = short
	}
	got, err := p.try(ctx, "POST", "/lease/acquire?"+query, "")
	if err != nil && withID && r.IntN(2) == 0 { // cancel it: nothing may stay
		if got, err = p.try(t.Context(), "POST", "/lease/release", `{"request_ids":["`+id+`"]}`); err != nil || got.status != 200 {
			t.Errorf("%s: %v, %+v", id, err, got)
		}
		return
	}
	if err != nil && withID {
		got, err = p.try(t.Context(), "POST", "/lease/acquire?"+query, "")
	}
	if err != nil || got.status != 200 {
		t.Errorf("%s: %v, %d %s", id, err, got.status, got.body)
		return
	}
	name := got.body[strings.Index(got.body, "q-"):][:3]
	holder := &holders[name[2]-'0']
	if !holder.CompareAndSwap(0, 1) {
		t.Errorf("%s: %s is held by somebody else", id, name)
	}
	time.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
	holder.Store(0)
	if got, err := p.try(t.Context(), "POST", "/lease/release", `{"names":["`+name+`"]}`); err != nil || got.status != 204 {
		t.Errorf("%s: %v, %+v", id, err, got)
	}
}

// When a call panics, all waiting calls are answered at once.
func TestPanicAnswersWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, durable(t, t.TempDir(), 1))
		p.acquire("type=q")
		waits := []<-chan reply{p.later(t.Context(), "type=q"), p.later(t.Context(), "type=q&request_id=r")}
		synctest.Wait()
		begun := time.Now()
		p.server.term.do(func(*pool.Set, time.Duration) { panic("half-way") })
		for _, w := range waits {
			r := <-w
			if took := time.Since(begun); r.status != 503 || !strings.Contains(r.body, errPanicked.Error()) || took > 0 {
				t.Errorf("after %v a waiter got %d %s", took, r.status, r.body)
			}
		}
		if err := p.stop(); !errors.Is(err, errPanicked) {
			t.Errorf("Serve: %v", err)
		}
	})
}
