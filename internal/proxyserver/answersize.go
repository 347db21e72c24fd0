package proxyserver

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// besideNames bounds the bytes of a lease beside its name: 59 in an answer, 72 in the handle
// of a client. An answer has each name twice. The rest is for everything else in them.
const besideNames = 80

// checkAnswer refuses a new request for so many leases that the answer to its grant, or
// the handle of its client, would be larger than our clients read.
func checkAnswer(set *pool.Set, now time.Duration, q pool.Request) error {
	if hasRoom(q) || q.Also == "" && q.Weighted && set.Counted(q.Type) {
		return nil
	}
	if _, _, known := set.Request(now, q.ID); known { // the names may be longer by now
		return nil
	}
	if q.Also != "" {
		return checkAnswerOf(set, q)
	}
	capacity, longest := set.Extent(q.Type, sizeInJSON)
	most := leaseapi.MaxBody / (2*longest + besideNames)
	if q.Count <= most || q.Count > capacity { // beyond the capacity the pools refuse it
		return nil
	}
	return fmt.Errorf("%w in one answer: %d asked for, and with names as long as these %d have room", pool.ErrTooMany, q.Count, most)
}

// hasRoom reports whether the answer to q is small enough, however long the names are.
func hasRoom(q pool.Request) bool {
	count := max(q.Count, 1)
	for _, a := range q.Others() {
		count += max(a.Count, 1)
	}
	size := 2*longestInJSON + besideNames
	if q.Also != "" {
		size += 2 * longestInJSON // the type
	}
	return count <= leaseapi.MaxBody/size
}

// checkAnswerOf is checkAnswer for a request of several types, each of whose leases also has its type.
func checkAnswerOf(set *pool.Set, q pool.Request) error {
	size := 0
	for _, a := range append(q.Others(), leaseapi.Also{Type: q.Type, Count: q.Count}) {
		count := max(a.Count, 1)
		if set.Counted(a.Type) {
			count = 1
		}
		capacity, longest := set.Extent(a.Type, sizeInJSON)
		if count > capacity { // the pools refuse it
			return nil
		}
		size += count * (2*longest + besideNames + 2*sizeInJSON(a.Type))
	}
	if size > leaseapi.MaxBody {
		return fmt.Errorf("%w in one answer: ask for fewer of them", pool.ErrTooMany)
	}
	return nil
}

// longestInJSON is the most that sizeInJSON returns: <, > and & take six bytes each.
const longestInJSON = 6 * leaseapi.MaxName

// sizeInJSON returns how many bytes a name takes in JSON, without its quotes. It is called
// for all names of a pool while no other call is served, so it calls encoding/json only for
// names that JSON may escape.
func sizeInJSON(name string) int {
	for i := range len(name) {
		switch c := name[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&': // may be escaped
			text, _ := json.Marshal(name) // a string never fails
			return len(text) - len(`""`)
		}
	}
	return len(name)
}
