package lockfile

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// object builds the text of a JSON object, key by key; fields with zero values are
// left out. Each command writes the same few types, once. [encoding/json] would
// build a table of each type by reflection before it writes the first, which takes
// longer than a command needs for the files themselves. It still reads them.
type object struct {
	text []byte
	err  error // of a value that has no text
}

func (o *object) key(key string) {
	begin := byte(',')
	if len(o.text) == 0 {
		begin = '{'
	}
	o.text = append(o.text, begin, '"')
	o.text = append(append(o.text, key...), '"', ':')
}

// string adds a string, escaped as encoding/json does it.
func (o *object) string(key, value string) {
	if value == "" {
		return
	}
	o.key(key)
	if !plain(value) {
		o.value(json.Marshal(value))
		return
	}
	o.text = append(o.text, '"')
	o.text = append(append(o.text, value...), '"')
}

// plain reports whether encoding/json escapes nothing in a string.
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

func (o *object) int(key string, value int) {
	if value != 0 {
		o.key(key)
		o.text = strconv.AppendInt(o.text, int64(value), 10)
	}
}

func (o *object) uint64(key string, value uint64) {
	if value != 0 {
		o.key(key)
		o.text = strconv.AppendUint(o.text, value, 10)
	}
}

func (o *object) bool(key string, value bool) {
	if value {
		o.key(key)
		o.text = append(o.text, "true"...)
	}
}

func (o *object) time(key string, value time.Time) {
	if !value.IsZero() {
		o.key(key)
		o.value(value.MarshalJSON())
	}
}

// value adds what stands behind a key.
func (o *object) value(text []byte, err error) {
	o.text = append(o.text, text...)
	if o.err == nil {
		o.err = err
	}
}

// end returns the object.
func (o *object) end() ([]byte, error) {
	if len(o.text) == 0 {
		return []byte("{}"), o.err
	}
	return append(o.text, '}'), o.err
}

// list adds an array of objects.
func list[T any](o *object, key string, values []T, fields func(T, *object)) {
	if len(values) == 0 {
		return
	}
	o.key(key)
	separator := byte('[')
	for _, v := range values {
		o.text = append(o.text, separator)
		separator = ','
		var element object
		fields(v, &element)
		o.value(element.end())
	}
	o.text = append(o.text, ']')
}
