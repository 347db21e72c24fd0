package lockfile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// What is written field by field is read by encoding/json as it was, every field
// of it, whatever stands in a string.
func TestEncodedFields(t *testing.T) {
	var n int
	var r Record
	setFields(reflect.ValueOf(&r).Elem(), &n)
	text, err := r.encode()
	ok(t, err)
	var doc document
	ok(t, json.Unmarshal(text, &doc))
	if back := doc.record(); !reflect.DeepEqual(back, r) {
		t.Errorf("a record came back as %+v\nwant %+v", back, r)
	}
	var in Intent
	setFields(reflect.ValueOf(&in).Elem(), &n)
	text, err = in.encode()
	ok(t, err)
	var intent Intent
	ok(t, json.Unmarshal(text, &intent))
	if !reflect.DeepEqual(intent, in) {
		t.Errorf("an intent came back as %+v\nwant %+v", intent, in)
	}
	var line historyLine
	setFields(reflect.ValueOf(&line).Elem(), &n)
	line.Format = plainFormat
	text, err = line.encode()
	ok(t, err)
	var again historyLine
	ok(t, json.Unmarshal(text, &again))
	if !reflect.DeepEqual(again, line) {
		t.Errorf("a line of the history came back as %+v\nwant %+v", again, line)
	}
}

// setFields gives each field of v another value, none of them zero.
func setFields(v reflect.Value, n *int) {
	*n++
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(historyAt.Add(time.Duration(*n) * 1001 * time.Microsecond)))
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprintf("%d \"<é>\"&\\\n\x01\u2028", *n))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(int64(*n))
	case v.CanUint():
		v.SetUint(uint64(*n) + 1<<63)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			setFields(v.Index(i), n)
		}
	default:
		for i := range v.NumField() {
			setFields(v.Field(i), n)
		}
	}
}
