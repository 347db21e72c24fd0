package object

import (
	"encoding/json"
	"testing"
	"time"
)

// A string is written as encoding/json writes it, whatever its characters.
func TestEncodedStrings(t *testing.T) {
	check := func(s string) {
		t.Helper()
		o := New()
		o.String("key", s)
		want, err := json.Marshal(map[string]string{"key": s})
		if got := o.End(); err != nil || o.Err() != nil || string(got) != string(want) {
			t.Errorf("%q is written as %s, want %s (%v, %v)", s, got, want, o.Err(), err)
		}
	}
	for c := range 256 {
		check("a" + string([]byte{byte(c)}) + "b")
		check(string(rune(c)))
	}
	check("/tmp/leasectl-0/lease-AB.json~ {}[]'`^|")
	check("\u2028\u2029\ufffd\U0001f600")
}

// An object is the same text as encoding/json writes for a struct with the same fields,
// zero or not.
func TestEncodedStruct(t *testing.T) {
	type element struct {
		Name string `json:"name,omitempty"`
	}
	type all struct {
		String   string    `json:"string"`
		Int      int64     `json:"int"`
		Uint     uint64    `json:"uint"`
		Value    []string  `json:"value"`
		StringIf string    `json:"string_if,omitempty"`
		IntIf    int64     `json:"int_if,omitempty"`
		UintIf   uint64    `json:"uint_if,omitempty"`
		TrueIf   bool      `json:"true_if,omitempty"`
		TimeIf   time.Time `json:"time_if,omitzero"`
		ListIf   []element `json:"list_if,omitempty"`
	}
	at := time.Date(2026, 11, 22, 10, 15, 4, 123456789, time.FixedZone("", 3600))
	for _, v := range []all{
		{},
		{"a", -1, 1 << 63, []string{"<b>", ""}, "c", -2, 1, true, at, []element{{"d"}, {}}},
	} {
		o := New()
		o.String("string", v.String)
		o.Int("int", v.Int)
		o.Uint("uint", v.Uint)
		o.Value("value", v.Value)
		o.StringIf("string_if", v.StringIf)
		o.IntIf("int_if", v.IntIf)
		o.UintIf("uint_if", v.UintIf)
		o.TrueIf("true_if", v.TrueIf)
		o.TimeIf("time_if", v.TimeIf)
		ListIf(&o, "list_if", v.ListIf, func(e element, o *Object) { o.StringIf("name", e.Name) })
		want, err := json.Marshal(v)
		if got := o.End(); err != nil || o.Err() != nil || string(got) != string(want) {
			t.Errorf("%s, want %s (%v, %v)", got, want, o.Err(), err)
		}
	}
	var none Object
	if got := string(none.End()); got != "{}" {
		t.Errorf("an object without fields is %s", got)
	}
}

// A value that cannot be encoded is an error of the outermost object, however deep it is.
func TestValueWithoutText(t *testing.T) {
	o := New()
	ListIf(&o, "list", []time.Time{time.Time{}.AddDate(20000, 0, 0)}, func(at time.Time, o *Object) { o.TimeIf("at", at) })
	o.String("after", "it")
	if o.Err() == nil {
		t.Errorf("%s is no error", o.End())
	}
}
