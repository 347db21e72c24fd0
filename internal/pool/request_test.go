package pool

import (
	"reflect"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

// Every part of what a client asks for reaches the pool: one that Set forgot would be checked, and ignored.
func TestSetHasAllParts(t *testing.T) {
	all := leaseapi.Ask{
		Count: 2, Items: new(3), Key: "k", Name: "n", KeyMode: leaseapi.KeyRead,
		Also: []leaseapi.Also{{Type: "u"}}, Coalesce: leaseapi.CoalesceOnce, Variant: "v", Priority: 4, Overcommit: true,
	}
	from := reflect.ValueOf(all)
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		if name == "Type" { // of the Request
			continue
		}
		var one leaseapi.Ask
		if from.Field(i).IsZero() {
			t.Fatalf("%s is not set", name)
		}
		reflect.ValueOf(&one).Elem().Field(i).Set(from.Field(i))
		var a, none Ask
		if err := a.Set(&one); err != nil {
			t.Fatal(err)
		}
		if none.Weighted = true; a == none {
			t.Errorf("%s does not reach the pool", name)
		}
	}
	var a Ask
	if a.Set(&leaseapi.Ask{Coalesce: "tomorrow"}) == nil {
		t.Error("a word that is no way to coalesce passes for none")
	}
}
