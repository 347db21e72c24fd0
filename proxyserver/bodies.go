package proxyserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

const (
	// mostBodies is how many bytes of all bodies beyond [usualBody] are in memory at once. What is
	// decoded from a body, and its answer, take up to ten times its size.
	mostBodies = 16 << 20
	// mostBodiesOfOne is how many of these are one caller's, so that nobody keeps out the others.
	mostBodiesOfOne = mostBodies / 2
)

var errBodies = errors.New("too many large bodies come at once: try again soon")

// bodies counts the bytes of large bodies that are in memory: of each, those beyond [usualBody].
type bodies struct {
	mu  sync.Mutex
	all int64
	of  map[string]int64 // by the id of the caller
}

// take reports whether n more bytes of a caller have room, and counts them then.
func (b *bodies) take(caller string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all+n > mostBodies || b.of[caller]+n > mostBodiesOfOne {
		return false
	}
	if b.of == nil {
		b.of = make(map[string]int64)
	}
	b.all += n
	b.of[caller] += n
	return true
}

// giveBack is the counterpart of take.
func (b *bodies) giveBack(caller string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if b.of[caller] -= n; b.of[caller] == 0 {
		delete(b.of, caller)
	}
}

// largeBody is the body of a request that may be larger than [usualBody]. What was read of it counts
// until giveBack: a caller that announces a body, and does not send it, takes nothing.
type largeBody struct {
	io.ReadCloser
	bodies *bodies
	caller string
	read   int64
	taken  int64
}

// countBody makes the body of r, whose sender is a caller, count if it is large. [giveBackBody] is the
// counterpart.
func (b *bodies) countBody(r *http.Request, caller string) {
	if r.ContentLength < 0 || r.ContentLength > usualBody {
		r.Body = &largeBody{ReadCloser: r.Body, bodies: b, caller: caller}
	}
}

func giveBackBody(r *http.Request) {
	if body, ok := r.Body.(*largeBody); ok && body.taken > 0 {
		body.bodies.giveBack(body.caller, body.taken)
		body.taken = 0
	}
}

// Read implements [io.Reader].
func (b *largeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if more := b.read - usualBody - b.taken; more > 0 {
		if !b.bodies.take(b.caller, more) {
			return 0, errBodies
		}
		b.taken += more
	}
	return n, err
}

const (
	// mostObjects is how many objects a body has: more than an answer has leases, and so a handle.
	mostObjects = 16 << 10
	// mostValues is how many values and names of fields: a client of version 1 may release all names of
	// a pool at once.
	mostValues = pool.MaxCapacity + 100
	// mostIDs is how many request ids one release has. Our clients send a handful.
	mostIDs = 1000
)

// checkSize refuses JSON with so many values that decoding it would take many times its size. JSON that
// is not valid may pass.
func checkSize(body []byte) error {
	if len(body) <= usualBody {
		return nil
	}
	values, objects := 0, 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			for i++; i < len(body) && body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
		case ',', ':':
			values++
		case '{', '[':
			objects++
		}
	}
	switch {
	case objects > mostObjects:
		return fmt.Errorf("the body has %d objects: at most %d go into one call", objects, mostObjects)
	case values > mostValues:
		return fmt.Errorf("the body has %d values: at most %d go into one call", values, mostValues)
	}
	return nil
}

// unique removes all but the first of equal elements: what a call asks for twice is done once.
func unique[T comparable](list []T) []T {
	if len(list) < 2 {
		return list
	}
	seen := make(map[T]bool, len(list))
	kept := list[:0]
	for _, x := range list {
		if !seen[x] {
			seen[x] = true
			kept = append(kept, x)
		}
	}
	return kept
}

// uniqueRelease removes what req has twice.
func uniqueRelease(req *leaseapi.ReleaseRequest) {
	req.Names, req.Leases, req.RequestIDs = unique(req.Names), unique(req.Leases), unique(req.RequestIDs)
}
