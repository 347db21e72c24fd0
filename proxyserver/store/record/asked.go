package record

import (
	"github.com/leasectl/leasectl/leaseapi/object"
	"github.com/leasectl/leasectl/pool"
)

// asked is a [pool.Ask] in the records of leases and waiters. It has the fields of pool.Ask
// in the same order, so that one type converts to the other.
type asked struct {
	Count      int           `json:"count"`
	Items      int           `json:"items,omitempty"`
	Key        string        `json:"key,omitempty"`
	Variant    string        `json:"variant,omitempty"`
	Coalesce   pool.Coalesce `json:"coalesce,omitempty"` // written as a word
	HasItems   bool          `json:"has_items,omitempty"`
	Weighted   bool          `json:"weighted,omitempty"`
	Priority   int           `json:"priority,omitempty"`
	Overcommit bool          `json:"overcommit,omitempty"`
}

// write adds the fields of a to o, the record that a is part of.
func (a *asked) write(o *object.Object) {
	o.Int("count", int64(a.Count))
	o.IntIf("items", int64(a.Items))
	o.StringIf("key", a.Key)
	o.StringIf("variant", a.Variant)
	if a.Coalesce != 0 {
		o.String("coalesce", a.Coalesce.String())
	}
	o.TrueIf("has_items", a.HasItems)
	o.TrueIf("weighted", a.Weighted)
	o.IntIf("priority", int64(a.Priority))
	o.TrueIf("overcommit", a.Overcommit)
}
