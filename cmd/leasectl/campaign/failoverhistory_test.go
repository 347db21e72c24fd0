package campaign

import (
	"fmt"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasectl/leasectl/leaseapi"
)

// heldNames is the model of the pool: for each name the generation of its grant, and the last
// generation that was granted.
type heldNames struct {
	names [3]uint64 // zero: free
	last  uint64
}

// heldCall is a call, and heldAnswer its result.
type heldCall struct {
	kind  string // acquire, renew, release, read
	count int
	lease leaseapi.Lease // renew, release
}

type heldAnswer struct {
	leases []leaseapi.Lease // acquire: the granted; read: all held
}

func nameIndex(l leaseapi.Lease) int { return int(l.Name[len("q-")] - '0') }

// heldModel allows a grant of free names with growing generations, a renewal and a release of held
// leases, and a read of exactly the held leases.
var heldModel = porcupine.Model{
	Init: func() any { return heldNames{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(heldNames), input.(heldCall), output.(heldAnswer)
		switch in.kind {
		case "acquire":
			for _, l := range out.leases {
				i := nameIndex(l)
				if s.names[i] != 0 || l.Generation <= s.last {
					return false, s
				}
				s.names[i], s.last = l.Generation, l.Generation
			}
			return len(out.leases) == in.count, s
		case "read":
			var seen [len(heldNames{}.names)]uint64
			for _, l := range out.leases {
				seen[nameIndex(l)] = l.Generation
			}
			return seen == s.names, s
		}
		i := nameIndex(in.lease)
		held := s.names[i] == in.lease.Generation
		if in.kind == "release" {
			s.names[i] = 0
		}
		return held, s
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// callHistory collects calls with the times between which each took effect.
type callHistory struct {
	begun time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// call makes a call and notes it if do returns true. A call that changes nothing may be left out.
func (h *callHistory) call(client int, in heldCall, do func() (heldAnswer, bool)) {
	called := time.Since(h.begun).Nanoseconds()
	out, counts := do()
	returned := time.Since(h.begun).Nanoseconds()
	if !counts {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: called, Output: out, Return: returned})
}

// count returns how many calls of a kind are noted.
func (h *callHistory) count(kind string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range h.ops {
		if op.Input.(heldCall).kind == kind {
			n++
		}
	}
	return n
}

// heldTwice returns two acquires whose clients surely held one name at the same time. A client
// surely holds it from the answer to the acquire until the call of the release.
func heldTwice(ops []porcupine.Operation) (a, b porcupine.Operation, twice bool) {
	type hold struct {
		porcupine.Operation
		lease     leaseapi.Lease
		from, end int64
	}
	var holds []hold
	for _, op := range ops {
		if op.Input.(heldCall).kind != "acquire" {
			continue
		}
		for _, l := range op.Output.(heldAnswer).leases {
			x := hold{op, l, op.Return, 1 << 62}
			for _, end := range ops {
				if in := end.Input.(heldCall); in.kind == "release" && in.lease == l {
					x.end = end.Call
				}
			}
			holds = append(holds, x)
		}
	}
	for i, x := range holds {
		for _, y := range holds[:i] {
			if x.lease.Name == y.lease.Name && x.from < y.end && y.from < x.end {
				return x.Operation, y.Operation, true
			}
		}
	}
	return a, b, false
}
