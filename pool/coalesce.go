package pool

import (
	"fmt"

	"github.com/leasectl/leasectl/leaseapi"
)

// Coalesce is whether a request with a [Ask.Key] merges with others of that key,
// instead of waiting for a turn of its own. Only requests of one token merge (see
// [BindOwner]), and only if they agree in Overcommit.
type Coalesce uint8

// The modes; zero: it merges with none.
const (
	// Join joins the last waiter of its key, if that is Join or Once and has its
	// Variant: so it ends with the result of a run that began after it came.
	Join Coalesce = iota + 1
	// Once does likewise, or, if nobody waits, joins the run under way.
	Once
	// Latest takes the place of the last waiter of its key, if that is Latest, too,
	// whatever the Variant. That one ends as [Superseded].
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
