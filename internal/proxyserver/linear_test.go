package proxyserver

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// locks is the model of a counted lock: the holder of each name, as the generation of the
// grant, and the last generation that was given.
type locks struct {
	names [4]uint64 // zero: free
	last  uint64
}

// lockCall is an operation on a lock; lockAnswer is its result.
type lockCall struct {
	kind  string // acquire, release, renew, read
	count int
	lease leaseapi.Lease // release, renew
}

type lockAnswer struct {
	ok     bool             // granted; released; renewed
	leases []leaseapi.Lease // acquire; read: all that are held
}

// lockModel allows a grant only of free names, all of them or none, with generations that
// grow, and a renewal only of a held name. With exact, an acquire is refused only when too
// few names are free; that holds if nobody waits.
func lockModel(exact bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return locks{} },
		Step: func(state, input, output any) (bool, any) {
			s, in, out := state.(locks), input.(lockCall), output.(lockAnswer)
			switch in.kind {
			case "acquire":
				return s.acquire(in.count, out, exact)
			case "release": // a name that another client has got since is left alone
				if i := int(in.lease.Name[2] - '0'); s.names[i] == in.lease.Generation {
					s.names[i] = 0
				}
				return out.ok, s
			case "read":
				var seen locks
				for _, l := range out.leases {
					seen.names[l.Name[2]-'0'] = l.Generation
				}
				return seen.names == s.names, s
			default:
				return out.ok == (s.names[in.lease.Name[2]-'0'] == in.lease.Generation), s
			}
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}
}

func (s locks) acquire(count int, out lockAnswer, exact bool) (bool, any) {
	free := 0
	for _, g := range s.names {
		if g == 0 {
			free++
		}
	}
	if !out.ok {
		return !exact || free < count, s
	}
	if len(out.leases) != count {
		return false, s
	}
	for _, l := range out.leases {
		i := int(l.Name[2] - '0')
		if s.names[i] != 0 || l.Generation <= s.last {
			return false, s
		}
		s.names[i], s.last = l.Generation, l.Generation
	}
	return true, s
}

// history collects operations with the times between which each took effect.
type history struct {
	begun time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (h *history) call(client int, in lockCall, do func() lockAnswer) lockAnswer {
	called := time.Since(h.begun).Nanoseconds()
	out := do()
	returned := time.Since(h.begun).Nanoseconds()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: called, Output: out, Return: returned})
	return out
}

// Concurrent clients of a server with a store see, over HTTP, the answers that they would see
// if their calls had been made one after the other.
//
// The test runs in rounds, each of which ends with all names free. The time of the checker
// grows fast with the length of a history. The history of a round takes it milliseconds, so
// a checker that takes longer than decideTime is a failure too.
func TestLinearizable(t *testing.T) {
	const decideTime = time.Minute
	for _, c := range []struct {
		name  string
		waits bool
	}{{"tries", false}, {"waits", true}} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, Options{Pools: []pool.Config{quota(len(locks{}.names))}, Store: openStore(t, t.TempDir())})
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			model := lockModel(!c.waits)
			forgeries := 0
			for round := range 10 {
				h := &history{begun: time.Now()}
				var clients sync.WaitGroup
				for client := range 6 {
					clients.Go(func() {
						r := rand.New(rand.NewPCG(seed, uint64(round<<8|client)))
						for n := range 3 {
							h.cycle(p, client, fmt.Sprintf("r%d-c%d-%d", round, client, n), r, c.waits)
						}
					})
				}
				clients.Wait()
				if result := porcupine.CheckOperationsTimeout(model, h.ops, decideTime); result != porcupine.Ok {
					t.Errorf("round %d: the checker says %s: no order explains, or none was found, what the clients saw: %+v", round, result, h.ops)
				}
				// A checker that accepts everything proves nothing: without the
				// release, the next grant of that name is impossible.
				if forged, ok := forget(h.ops); ok {
					forgeries++
					if result := porcupine.CheckOperationsTimeout(model, forged, decideTime); result != porcupine.Illegal {
						t.Errorf("round %d: of a history with a name granted twice the checker says %s", round, result)
					}
				}
			}
			if forgeries == 0 {
				t.Error("no name was granted again in any round")
			}
		})
	}
}

// cycle acquires, renews and releases.
func (h *history) cycle(p *peer, client int, id string, r *rand.Rand, waits bool) {
	count := 1 + r.IntN(3)
	query := fmt.Sprintf("type=q&count=%d&request_id=%s", count, id)
	if !waits || r.IntN(2) == 0 {
		query += "&wait=0"
	}
	got := h.call(client, lockCall{kind: "acquire", count: count}, func() (out lockAnswer) {
		answer := p.acquire(query)
		var grant leaseapi.AcquireReply
		if answer.status == 200 {
			json.Unmarshal([]byte(answer.body), &grant)
		} else if !strings.Contains(answer.body, leaseapi.TextExhausted) && !strings.Contains(answer.body, leaseapi.ProblemExhausted) {
			p.t.Errorf("%s: %d %s", id, answer.status, answer.body)
		}
		return lockAnswer{ok: answer.status == 200, leases: grant.Leases}
	})
	for i, l := range got.leases {
		body, _ := json.Marshal(leaseapi.RenewRequest{Leases: []leaseapi.Lease{l}})
		renew := func() lockAnswer { return lockAnswer{ok: p.do("POST", "/lease/renew", string(body)).status == 200} }
		if i == 0 && r.IntN(2) == 0 {
			h.call(client, lockCall{kind: "renew", lease: l}, renew)
		}
		h.call(client, lockCall{kind: "release", lease: l}, func() lockAnswer {
			body, _ := json.Marshal(leaseapi.ReleaseRequest{Leases: []leaseapi.Lease{l}})
			return lockAnswer{ok: p.release(string(body)).status == 200}
		})
		if r.IntN(4) == 0 {
			h.call(client, lockCall{kind: "renew", lease: l}, renew)
		}
	}
}

// forget returns ops without the first release of a name that was granted again.
func forget(ops []porcupine.Operation) ([]porcupine.Operation, bool) {
	for i, op := range ops {
		in := op.Input.(lockCall)
		if in.kind != "release" {
			continue
		}
		for _, later := range ops[i+1:] {
			for _, l := range later.Output.(lockAnswer).leases {
				if l.Name == in.lease.Name {
					return append(append([]porcupine.Operation(nil), ops[:i]...), ops[i+1:]...), true
				}
			}
		}
	}
	return nil, false
}
