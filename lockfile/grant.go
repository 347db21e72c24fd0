package lockfile

import (
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/leaseapi/object"
)

// Grant is one grant of a name. For a name from a list or a command line, only the name may be
// known.
type Grant struct {
	Lease
	Store      string    `json:"store,omitempty"` // id of the proxy's store: the same name in another store is another lease
	RequestID  string    `json:"request_id,omitempty"`
	Owner      string    `json:"owner,omitempty"`
	Handle     string    `json:"handle,omitempty"`      // path of the handle that got it
	SharedList string    `json:"shared_list,omitempty"` // as in Record
	At         time.Time `json:"at,omitzero"`           // when it was granted, as [FileTime]
	GivenBack  time.Time `json:"given_back,omitzero"`   // zero: not given back, as far as this machine knows
}

func (g Grant) appendTo(to *object.Object) {
	g.Lease.appendTo(to)
	to.StringIf("store", g.Store)
	to.StringIf("request_id", g.RequestID)
	to.StringIf("owner", g.Owner)
	to.StringIf("handle", g.Handle)
	to.StringIf("shared_list", g.SharedList)
	to.TimeIf("at", g.At)
	to.TimeIf("given_back", g.GivenBack)
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

// before reports whether generations say that g was granted before o, a grant of the
// same name and store. Times say nothing: the clock may have been set back in between.
func (g Grant) before(o Grant) bool {
	return g.Generation != 0 && g.Generation < o.Generation
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

// withValidNames returns the grants whose names are valid. It changes the slice.
func withValidNames(grants []Grant) []Grant {
	return slices.DeleteFunc(grants, func(g Grant) bool { return leaseapi.CheckName(g.Name) != nil })
}
