package leaseapi

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// wholes are values of all parts of an Ask. Each part needs a row.
var wholes = Ask{
	Type: "t", Count: 3, Items: new(7), Key: "k é", Name: "t-1", KeyMode: KeyRead,
	Also: []Also{{Type: "u"}, {Type: "a=b", Count: 2}}, Coalesce: CoalesceOnce, Variant: "v & w", Priority: -3, Overcommit: true,
}

// An Ask has no part without a row: a version-1 proxy would ignore it, and no side would check it.
func TestAskHasAllParts(t *testing.T) {
	fields := reflect.TypeFor[Ask]()
	for i := range fields.NumField() {
		var a Ask
		reflect.ValueOf(&a).Elem().Field(i).Set(reflect.ValueOf(wholes).Field(i))
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		said := Said(&a)
		if reflect.ValueOf(a).Field(i).IsZero() {
			t.Fatalf("wholes has no %s", name)
		}
		if version1 := name == ParamType || name == ParamCount; len(said) > 0 == version1 || !version1 && said[0] != name || (BeyondVersion1(&a) == "") != version1 {
			t.Errorf("%s is said as %q, and is beyond version 1 by %q", name, said, BeyondVersion1(&a))
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
		{Ask{Items: new(int)}, "a number of items"},
		{Ask{Key: "k", Coalesce: CoalesceJoin, Variant: "v"}, "a key"},
		{Ask{Overcommit: true, Priority: 1}, "a priority"},
		{Ask{Also: []Also{{Type: "u"}}, Name: "n"}, "leases of several types at once"},
	} {
		if what := BeyondVersion1(&tt.ask); what != tt.what {
			t.Errorf("%+v is beyond version 1 by %q, want %q", tt.ask, what, tt.what)
		}
	}
}

// What is not of its form is refused, and so is what does not go together.
func TestCheckAcquire(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                                                                             "type is empty",
		`{"type":"t","count":-1}`:                                                        "the count is -1",
		`{"type":"t","name":"a/b"}`:                                                      "contains",
		`{"type":"t","items":-1}`:                                                        "items -1: want 0 to",
		`{"type":"t","count":1,"items":1}`:                                               "count does not go with items",
		`{"type":"t","priority":101}`:                                                    "priority 101: want -100 to 100",
		`{"type":"t","also":[{}]}`:                                                       "type is empty",
		`{"type":"t","also":[{"type":"t"}]}`:                                             "is there twice",
		`{"type":"t","key":"k","key_mode":"both"}`:                                       `parameter "key_mode" is not valid: both`,
		`{"type":"t","key":"k","coalesce":"never","variant":"v"}`:                        `"never" is no way to coalesce: it is join, once or latest`,
		`{"type":"t","key":"k","coalesce":"join"}`:                                       "variant is empty",
		`{"type":"t","key":"k","variant":"v"}`:                                           "variant goes with coalesce",
		`{"type":"t","coalesce":"join","variant":"v"}`:                                   "coalesce join goes with key",
		`{"type":"t","key_mode":"write"}`:                                                "key_mode write goes with key",
		`{"type":"t","key":"k","name":"n"}`:                                              "name does not go with key",
		`{"type":"t","count":2,"name":"n"}`:                                              "name does not go with count 2",
		`{"type":"t","name":"n","also":[{"type":"u"}]}`:                                  "name does not go with also",
		`{"type":"t","name":"n","items":1}`:                                              "name does not go with items",
		`{"type":"t","name":"n","overcommit":true}`:                                      "name does not go with overcommit",
		`{"type":"t","name":"n","coalesce":"join","variant":"v"}`:                        "coalesce join does not go with name",
		`{"type":"t","also":[{"type":"u"}],"overcommit":true}`:                           "overcommit does not go with also",
		`{"type":"t","key":"k","key_mode":"read","coalesce":"join","variant":"v"}`:       "coalesce join does not go with key_mode read",
		`{"type":"t","key":"k","also":[{"type":"u"}],"coalesce":"latest","variant":"v"}`: "coalesce latest does not go with also",
		`{"type":"t","request_id":".x"}`:                                                 "begins with a dot",
		`{"type":"t","owner":"a\nb"}`:                                                    "owner",
		`{"type":"t","ttl":"-1s"}`:                                                       "ttl",
		`{"type":"t","wait":"-1s"}`:                                                      "wait",
		`{"type":"t","also":[{"type":"u"}]}`:                                             "also goes with a request_id",
		`{"type":"t","key":"k","coalesce":"join","variant":"v"}`:                         "coalesce goes with a request_id",
		`{"type":"t","replaces":[{"name":"a","generation":1}]}`:                          "replaces goes with a request_id",
		`{"type":"t","request_id":"r","replaces":[{"name":"a"}]}`:                        "is no lease to replace",
		`{"type":"t","request_id":"r","replaces":[` + strings.Repeat(`{"name":"a","generation":1},`, MaxReplaces) + `{"name":"a","generation":1}]}`: "more than 400",
		`{"type":"t","request_id":"r","wait":"0s","ttl":"5m","items":0,"also":[{"type":"u","count":2}],"replaces":[{"name":"a","generation":1}]}`:   "",
	} {
		var r AcquireRequest
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if err := CheckAcquire(&r); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", Shorten(body), err, want)
		}
	}
	for _, a := range []Ask{{Type: "t", Count: 2, Name: "n"}, {Type: "t", Count: 1, Items: new(int)}} {
		if _, ok := errors.AsType[*RuleError](CheckAsk(&a)); !ok {
			t.Errorf("%+v: %v", a, CheckAsk(&a))
		}
	}
}
