package leaseapi

import (
	"fmt"
	"strings"
)

// Order says where the order of the queue puts a request that waits, and why. Servers before
// wire 4 do not send it.
type Order struct {
	// Priority is the priority by which the request stands where it stands: the one that it asked
	// for, unless an operator moved it, a request of a better rank joined it, or it superseded one.
	Priority int `json:"priority,omitempty"`
	Higher   int `json:"higher,omitempty"` // waiters ahead of it that stand there by a higher priority
	// Overtaken is how many units went ahead of the request while it did not fit, and MayOvertake
	// how many may in all; both are zero as long as none did.
	Overtaken   int `json:"overtaken,omitempty"`
	MayOvertake int `json:"may_overtake,omitempty"`
}

// Words says it in words, such as "priority 5, behind 3 of higher priority, 288 of 1024 units went
// ahead of it"; empty if there is nothing to say.
func (o Order) Words() string {
	var words []string
	if o.Priority != 0 {
		words = append(words, fmt.Sprintf("priority %d", o.Priority))
	}
	if o.Higher > 0 {
		words = append(words, fmt.Sprintf("behind %d of higher priority", o.Higher))
	}
	if o.Overtaken > 0 {
		words = append(words, fmt.Sprintf("%d of %d units went ahead of it", o.Overtaken, max(o.Overtaken, o.MayOvertake)))
	}
	return strings.Join(words, ", ")
}
