package record

import (
	"github.com/leasectl/leasectl/leaseapi/object"
	"github.com/leasectl/leasectl/pool"
)

// asked is a [pool.Ask], which the leases and the waiter of a request have. To convert
// one to the other, both have the same fields in the same order.
type asked struct {
	Count      int           `json:"count"`
	Items      int           `json:"items,omitempty"`
	Key        string        `json:"key,omitempty"`
	Variant    string        `json:"variant,omitempty"`
	Coalesce   pool.Coalesce `json:"coalesce,omitempty"` // a word
	HasItems   bool          `json:"has_items,omitempty"`
	Weighted   bool          `json:"weighted,omitempty"`
	Overcommit bool          `json:"overcommit,omitempty"`
}

// write adds the fields to the record that a is part of.
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
	o.TrueIf("overcommit", a.Overcommit)
}
