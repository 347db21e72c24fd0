package proxyserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

var (
	errBodies = errors.New("too many large bodies come at once: try again soon")
	errLarge  = fmt.Errorf("%w: too many calls for many leases at once", pool.ErrQueueFull)
)

// largeBody is the large body of a call. It has room from when its sender is known until the call is
// answered, or cannot be read.
type largeBody struct {
	io.ReadCloser
	giveBack func() // nil: there is no room
}

// Read implements [io.Reader].
func (b *largeBody) Read(p []byte) (int, error) {
	if b.giveBack == nil {
		return 0, errBodies
	}
	return b.ReadCloser.Read(p)
}

// countBody takes room for the body of r, whose sender is a caller, if it is large. [giveBackBody] is the
// counterpart.
func (b *budget) countBody(r *http.Request, caller string) {
	size := min(r.ContentLength, leaseapi.MaxBody) // of a longer one no more is read
	switch {
	case size < 0:
		size = leaseapi.MaxBody
	case size <= usualBody:
		return
	}
	body := &largeBody{ReadCloser: r.Body}
	if b.take(caller, size) {
		body.giveBack = func() { b.giveBack(caller, size) }
	}
	r.Body = body
}

// bytesOfLease is about what a lease takes, from when it is granted until it is stored.
const bytesOfLease = 1 << 10

// room returns how many bytes q counts among the large bodies while it is decided, if it asks for
// many leases: of a counted pool there are always more, however many others ask at once.
func (q *acquireRequest) room() int64 {
	if n := int64(q.Count); !q.Weighted && n > usualBody/bytesOfLease {
		return min(n, mostOfOne/bytesOfLease) * bytesOfLease
	}
	return 0
}

func giveBackBody(r *http.Request) {
	if body, ok := r.Body.(*largeBody); ok && body.giveBack != nil {
		body.giveBack()
	}
}

const (
	// mostObjects is how many objects a body has, or names with an owner: more than an answer has leases, and so a handle.
	mostObjects = 16 << 10
	// mostValues is how many values and names of fields: a client of version 1 may release all names of
	// a pool at once.
	mostValues = pool.MaxCapacity + 100
	// mostIDs is how many request ids one release has, which bounds how much a commit has to write. Our
	// clients send a handful.
	mostIDs = 100
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
