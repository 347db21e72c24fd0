// Package object writes the text of a JSON object, field by field. The text is the same
// as [encoding/json] writes for a struct. encoding/json inspects each type by reflection,
// which takes longer than a command needs to write its files, or a server to write the
// records of a commit. Readers of the text use encoding/json.
package object

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// Object is a JSON object under construction. The zero Object has no fields and is ready
// to use. Field names are written as they are, without escapes.
type Object struct {
	text []byte
	err  error // of the first value that could not be encoded
}

// New returns an object without fields, with a buffer large enough for most records.
func New() Object { return Object{text: make([]byte, 0, 256)} }

// String adds a field.
func (o *Object) String(name, value string) {
	if !plain(value) {
		o.Value(name, value)
		return
	}
	o.name(name)
	o.text = append(o.text, '"')
	o.text = append(append(o.text, value...), '"')
}

// plain reports whether s has only ASCII that encoding/json does not escape.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c >= utf8.RuneSelf:
			return false
		case c == '"' || c == '\\' || c == '<' || c == '>' || c == '&':
			return false
		}
	}
	return true
}

// Int adds a field.
func (o *Object) Int(name string, value int64) {
	o.name(name)
	o.text = strconv.AppendInt(o.text, value, 10)
}

// Uint adds a field.
func (o *Object) Uint(name string, value uint64) {
	o.name(name)
	o.text = strconv.AppendUint(o.text, value, 10)
}

// Value adds a field of any type, as [json.Marshal] writes it.
func (o *Object) Value(name string, value any) {
	o.name(name)
	text, err := json.Marshal(value)
	o.text = append(o.text, text...)
	o.fail(err)
}

// StringIf adds a field unless its value is empty, like omitempty.
func (o *Object) StringIf(name, value string) {
	if value != "" {
		o.String(name, value)
	}
}

// IntIf adds a field unless its value is 0.
func (o *Object) IntIf(name string, value int64) {
	if value != 0 {
		o.Int(name, value)
	}
}

// UintIf adds a field unless its value is 0.
func (o *Object) UintIf(name string, value uint64) {
	if value != 0 {
		o.Uint(name, value)
	}
}

// TrueIf adds a field unless its value is false.
func (o *Object) TrueIf(name string, value bool) {
	if value {
		o.name(name)
		o.text = append(o.text, "true"...)
	}
}

// TimeIf adds a field unless its value is the zero time, like omitzero.
func (o *Object) TimeIf(name string, value time.Time) {
	if !value.IsZero() {
		o.name(name)
		text, err := value.MarshalJSON()
		o.text = append(o.text, text...)
		o.fail(err)
	}
}

// ListIf adds an array of objects unless it is empty. write adds the fields of one value
// to its object.
func ListIf[T any](o *Object, name string, values []T, write func(T, *Object)) {
	if len(values) == 0 {
		return
	}
	o.name(name)
	separator := byte('[')
	for _, v := range values {
		o.text = append(o.text, separator)
		separator = ','
		var element Object
		write(v, &element)
		o.text = append(o.text, element.End()...)
		o.fail(element.err)
	}
	o.text = append(o.text, ']')
}

// End returns the text of the finished object: add no field after it. The text is valid
// only if Err returns nil.
func (o *Object) End() []byte {
	if len(o.text) == 0 {
		return []byte("{}")
	}
	return append(o.text, '}')
}

// Err returns the error of the first value that could not be encoded, such as a time
// after the year 9999. Strings and integers never fail.
func (o *Object) Err() error { return o.err }

// name begins a field: it writes the separator and the name.
func (o *Object) name(name string) {
	begin := byte(',')
	if len(o.text) == 0 {
		begin = '{'
	}
	o.text = append(o.text, begin, '"')
	o.text = append(append(o.text, name...), '"', ':')
}

func (o *Object) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}
