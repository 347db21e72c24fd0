package record

import (
	"github.com/leasectl/leasectl/leaseapi/object"
	"github.com/leasectl/leasectl/pool"
)

// asked is what a request said of what it wants, as its leases and its waiter have
// it.
type asked struct {
	Count      int           `json:"count"`
	Items      int           `json:"items,omitempty"`
	HasItems   bool          `json:"has_items,omitempty"`
	Weighted   bool          `json:"weighted,omitempty"`
	Key        string        `json:"key,omitempty"`
	Coalesce   pool.Coalesce `json:"coalesce,omitempty"` // a word
	Variant    string        `json:"variant,omitempty"`
	Overcommit bool          `json:"overcommit,omitempty"`
}

func askedBy(q pool.Request) asked {
	return asked{
		Count: q.Count, Items: q.Items, HasItems: q.HasItems, Weighted: q.Weighted,
		Key: q.Key, Coalesce: q.Coalesce, Variant: q.Variant, Overcommit: q.Overcommit,
	}
}

// write adds the fields to the record that a is part of.
func (a *asked) write(o *object.Object) {
	o.Int("count", int64(a.Count))
	o.IntIf("items", int64(a.Items))
	o.TrueIf("has_items", a.HasItems)
	o.TrueIf("weighted", a.Weighted)
	o.StringIf("key", a.Key)
	if a.Coalesce != 0 {
		o.String("coalesce", a.Coalesce.String())
	}
	o.StringIf("variant", a.Variant)
	o.TrueIf("overcommit", a.Overcommit)
}
