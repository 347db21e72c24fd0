package proxyclient

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

// All texts of the pools and of a request can be printed: none has a control character, or may be a command to a CI system.
func TestTextsOfListsArePrintable(t *testing.T) {
	for _, text := range []string{"a\x1b[2J\u202e\u009bb\n", "##vso[a]"} {
		listsOfText(t, text)
	}
}

func listsOfText(t *testing.T, text string) {
	answers := map[string]any{leaseapi.PathPools: new(leaseapi.PoolsReply), leaseapi.PathRequests + "id": new(leaseapi.RequestReply)}
	for _, a := range answers {
		fillTexts(reflect.ValueOf(a).Elem(), text)
	}
	answers[leaseapi.PathPools].(*leaseapi.PoolsReply).Next = ""
	answers[leaseapi.PathRequests+"id"].(*leaseapi.RequestReply).RequestID = "id"
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { json.NewEncoder(w).Encode(answers[r.URL.Path]) })
	bubble(t, "pools", func(t *testing.T) {
		c, _ := serve(t, handler)
		all, err := c.Overview(t.Context(), "")
		wantTexts(t, all, err)
	})
	bubble(t, "request", func(t *testing.T) {
		c, _ := serve(t, handler)
		state, err := c.RequestState(t.Context(), "id")
		state.RequestID = ""
		wantTexts(t, state, err)
	})
}

// fillTexts sets all texts in v, a list to one element, and a pointer to a new value.
func fillTexts(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillTexts(v.Field(i), text)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillTexts(v.Index(0), text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillTexts(v.Elem(), text)
	}
}

// wantTexts fails the test if a text in v has a character that cannot be printed.
func wantTexts(t *testing.T, v any, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			if s := v.String(); s != leaseapi.Printable(s) {
				t.Errorf("%s is %q", path, s)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					walk(path+"."+v.Type().Field(i).Name, v.Field(i))
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(path+"[]", v.Index(i))
			}
		case reflect.Pointer:
			if !v.IsNil() {
				walk(path, v.Elem())
			}
		}
	}
	walk(reflect.TypeOf(v).Name(), reflect.ValueOf(v))
}
