package leaseapi

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// wholes are values of all parts of an Ask. Each part needs a row.
var wholes = Ask{
	Type: "t", Count: 3, Items: 7, HasItems: true, Key: "k é", Name: "t-1", KeyMode: KeyRead,
	Also: []Also{{Type: "u"}, {Type: "a=b", Count: 2}}, Coalesce: CoalesceOnce, Variant: "v & w", Priority: -3, Overcommit: true,
}

// subset returns an Ask with some parts of wholes, by the bits of which.
func subset(which int) (a Ask) {
	from, to := reflect.ValueOf(wholes), reflect.ValueOf(&a).Elem()
	for i := range from.NumField() {
		if which>>i&1 == 1 {
			to.Field(i).Set(from.Field(i))
		}
	}
	if a.Type = "t"; !a.HasItems {
		a.Items = 0
	}
	return a
}

// Whatever is asked for arrives as it was asked for, and both sides refuse the same, with the same words.
func TestAskRoundTrip(t *testing.T) {
	for which := range 1 << reflect.TypeFor[Ask]().NumField() {
		a := subset(which)
		v := url.Values{}
		EncodeAsk(&a, v)
		if what := BeyondVersion1(&a); (what != "") != (len(v) > 0) {
			t.Fatalf("%+v is beyond version 1 by %q, and has %v", a, what, v)
		}
		b := Ask{Type: a.Type, Count: a.Count}
		err := DecodeAsk(&b, v)
		if want := CheckAsk(&a); (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
			t.Fatalf("%+v: read: %v; asked: %v", a, err, want)
		}
		if !reflect.DeepEqual(a, b) && err == nil {
			t.Fatalf("%+v arrives as %+v", a, b)
		}
	}
}

// An Ask has no part without a row: a part that nobody writes would be lost on the wire.
func TestAskHasAllParts(t *testing.T) {
	v := url.Values{}
	a := wholes
	EncodeAsk(&a, v)
	fields := reflect.TypeFor[Ask]()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		if !v.Has(name) && !slices.Contains([]string{ParamType, ParamCount, "has_items"}, name) {
			t.Errorf("field %s has no row in parts", fields.Field(i).Name)
		}
	}
}

// An error names the part that says most of what is asked for.
func TestBeyondVersion1(t *testing.T) {
	for _, tt := range []struct {
		ask  Ask
		what string
	}{
		{Ask{Type: "t", Count: 2}, ""},
		{Ask{Key: "k"}, "a key"},
		{Ask{Key: "k", KeyMode: KeyWrite}, "a key"},
		{Ask{Key: "k", KeyMode: KeyRead}, "a key that is read"},
		{Ask{HasItems: true}, "a number of items"},
		{Ask{Key: "k", Coalesce: CoalesceJoin, Variant: "v"}, "a key"},
		{Ask{Overcommit: true, Priority: 1}, "a priority"},
		{Ask{Also: []Also{{Type: "u"}}, Name: "n"}, "leases of several types at once"},
	} {
		if what := BeyondVersion1(&tt.ask); what != tt.what {
			t.Errorf("%+v is beyond version 1 by %q, want %q", tt.ask, what, tt.what)
		}
	}
}

// Parameters that are not of their form are refused, and so are empty ones, which would pass for none.
func TestAskDecodeRefuses(t *testing.T) {
	for query, want := range map[string]string{
		"key=":                           "key is empty",
		"name=":                          "name is empty",
		"name=a%2Fb":                     "contains",
		"items=":                         `parameter "items" is not valid`,
		"items=-1":                       "items -1: want 0 to",
		"priority=x":                     `parameter "priority" is not valid: x`,
		"priority=101":                   "priority 101: want -100 to 100",
		"overcommit=maybe":               `parameter "overcommit" is not valid: maybe`,
		"also=":                          "type is empty",
		"also=t":                         "is there twice",
		"key=k&key_mode=both":            `parameter "key_mode" is not valid: both`,
		"key=k&key_mode=":                `parameter "key_mode" is not valid`,
		"key=k&coalesce=never":           `"never" is no way to coalesce: it is join, once or latest`,
		"key=k&coalesce=join":            "variant is empty",
		"key=k&coalesce=join&variant=":   "variant is empty",
		"key=k&variant=v":                "variant goes with coalesce",
		"coalesce=join&variant=v":        "coalesce join goes with key",
		"key_mode=write":                 "key_mode write goes with key",
		"key=k&name=n":                   "name does not go with key",
		"name=n&also=u":                  "name does not go with also",
		"name=n&items=1":                 "name does not go with items",
		"name=n&overcommit=true":         "name does not go with overcommit",
		"name=n&coalesce=join&variant=v": "coalesce join does not go with name",
		"also=u&overcommit=true":         "overcommit does not go with also",
		"key=k&key_mode=read&coalesce=join&variant=v": "coalesce join does not go with key_mode read",
		"key=k&also=u&coalesce=latest&variant=v":      "coalesce latest does not go with also",
	} {
		v, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		a := Ask{Type: "t"}
		if err := DecodeAsk(&a, v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
	for _, a := range []Ask{{Type: "t", Count: 2, Name: "n"}, {Type: "t", Count: 1, HasItems: true}} {
		if _, ok := errors.AsType[*RuleError](CheckAsk(&a)); !ok {
			t.Errorf("%+v: %v", a, CheckAsk(&a))
		}
	}
	for _, a := range []Ask{{}, {Type: "t", Count: -1}, {Type: "t", Items: 3}, {Type: "t", Key: "k", KeyMode: "Read"}} {
		if CheckAsk(&a) == nil {
			t.Errorf("%+v may be asked for", a)
		}
	}
}

// No query makes Decode panic, and what it accepts is written as it was read.
func FuzzAskDecode(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		a, v := subset(random.IntN(1<<reflect.TypeFor[Ask]().NumField())), url.Values{}
		EncodeAsk(&a, v)
		f.Add(v.Encode())
	}
	f.Fuzz(func(t *testing.T, query string) {
		v, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		a := Ask{Type: "t"}
		if DecodeAsk(&a, v) != nil {
			return
		}
		again := url.Values{}
		EncodeAsk(&a, again)
		b := Ask{Type: "t"}
		if err := DecodeAsk(&b, again); err != nil {
			t.Fatalf("%q is read, but what is written of it is not: %q: %v", query, again.Encode(), err)
		}
		if b.KeyMode = a.KeyMode; !reflect.DeepEqual(a, b) { // write is not sent: it is meant anyway
			t.Fatalf("%+v becomes %+v", a, b)
		}
	})
}
