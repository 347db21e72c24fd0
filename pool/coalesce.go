package pool

import (
	"fmt"

	"github.com/leasectl/leasectl/leaseapi"
)

// Coalesce says whether a request with an [Ask.Key] merges with others of that key, instead of
// waiting for a turn of its own. Requests merge only if they have the same caller (see
// [BindOwner]) and the same Overcommit.
type Coalesce uint8

// The modes; zero: the request merges with no other.
const (
	// Join joins the last waiter of its key, if that waiter is Join or Once and has the same
	// Variant. So the request ends with the result of a run that began after it came.
	Join Coalesce = iota + 1
	// Once is like Join; but if nobody waits for the key, it joins the run under way.
	Once
	// Latest takes the place of the last waiter of its key, if that waiter is Latest too, with
	// any Variant. The replaced request ends as [Superseded].
	Latest
)

var coalesceWords = [...]string{"", leaseapi.CoalesceJoin, leaseapi.CoalesceOnce, leaseapi.CoalesceLatest}

// String returns the word for c, which is empty for zero.
func (c Coalesce) String() string { return coalesceWords[c] }

// ParseCoalesce is the reverse of [Coalesce.String].
func ParseCoalesce(word string) (Coalesce, error) {
	for c, w := range coalesceWords {
		if w == word {
			return Coalesce(c), nil
		}
	}
	return 0, fmt.Errorf("%q is no way to coalesce: it is join, once or latest", word)
}

// MarshalText implements [encoding.TextMarshaler].
func (c Coalesce) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *Coalesce) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCoalesce(string(text))
	return err
}
