package record

import (
	"encoding/json"
	"strconv"
)

// Object is a JSON object while it is written. It is what [json.Marshal] makes of a
// struct, but without reflection, for the records that most commits write.
type Object struct{ text []byte }

// NewObject returns an object without fields, with room for those of most records.
func NewObject() Object { return Object{make([]byte, 0, 256)} }

// String adds a field.
func (o *Object) String(name, value string) {
	o.name(name)
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(value) // no string is an error
			o.text = append(o.text, text...)
			return
		}
	}
	o.text = append(o.text, '"')
	o.text = append(o.text, value...)
	o.text = append(o.text, '"')
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

// StringIf adds a field unless its value is empty, as omitempty says.
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

// TrueIf adds a field unless its value is false.
func (o *Object) TrueIf(name string, value bool) {
	if value {
		o.name(name)
		o.text = append(o.text, "true"...)
	}
}

// End returns the text of the object, which gets no more fields.
func (o *Object) End() []byte { return append(o.text, '}') }

// name begins a field.
func (o *Object) name(name string) {
	begin := byte(',')
	if len(o.text) == 0 {
		begin = '{'
	}
	o.text = append(o.text, begin, '"')
	o.text = append(o.text, name...)
	o.text = append(o.text, '"', ':')
}
