package lockfile

import (
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Grant is one grant of a name, as a [List] remembers it. Of a line that others wrote, only the
// name is known.
type Grant struct {
	Lease
	Store     string    `json:"store,omitempty"`   // id of the proxy's store: the same name in another store is another lease
	Adapter   string    `json:"adapter,omitempty"` // as in Record; then there is no generation
	RequestID string    `json:"request_id,omitempty"`
	Owner     string    `json:"owner,omitempty"`
	At        time.Time `json:"at,omitzero"`     // when it was acquired
	Proxy     string    `json:"proxy,omitempty"` // URL without a password, of a proxy that told the id of its store

	Taker leaseapi.Caller `json:"taker,omitzero"` // as in Record
}

// Is reports whether g and o are known to be the same grant: by their generations or, if one of
// these is unknown, by their request ids.
func (g Grant) Is(o Grant) bool {
	if g.Name != o.Name || g.Store != o.Store {
		return false
	}
	if g.Generation != 0 && o.Generation != 0 {
		return g.Generation == o.Generation
	}
	return g.RequestID != "" && g.RequestID == o.RequestID
}

// mayBe reports whether g and o can be the same grant, by what is known of both.
func (g Grant) mayBe(o Grant) bool {
	if !g.identified() || !o.identified() {
		return g.Name == o.Name
	}
	return g.Is(o)
}

// identified reports whether more than the name is known.
func (g Grant) identified() bool { return g.Generation != 0 || g.RequestID != "" }

// onlyIdentified returns the grants that have more than a name.
func onlyIdentified(grants []Grant) (known []Grant) {
	for _, g := range grants {
		if g.identified() {
			known = append(known, g)
		}
	}
	return known
}

// valid returns the grants whose fields are valid. It changes the slice.
func valid(grants []Grant) []Grant {
	return slices.DeleteFunc(grants, func(g Grant) bool { return g.check() != nil })
}
