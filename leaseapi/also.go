package leaseapi

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// MaxAlso is how many types a request may ask for beside its first one.
const MaxAlso = 7

// Also is a type that a request asks for beside its first one, and how much of it.
type Also struct {
	Type  string `json:"type"`
	Count int    `json:"count,omitempty"` // as [ParamCount]; zero: not given
}

// String returns a as [ParseAlso] reads it.
func (a Also) String() string {
	if a.Count == 0 && !strings.Contains(a.Type, "=") {
		return a.Type
	}
	return a.Type + "=" + strconv.Itoa(cmp.Or(a.Count, 1))
}

// ParseAlso reads TYPE or TYPE=N. A type that has an equals sign itself needs the N.
func ParseAlso(text string) (a Also, err error) {
	a.Type = text
	if i := strings.LastIndexByte(text, '='); i >= 0 {
		n, err := strconv.ParseUint(text[i+1:], 10, 31)
		if err != nil || n == 0 {
			return Also{}, fmt.Errorf("%q is neither a type nor TYPE=N with a number N from 1 on: of a type with an equals sign, say the number, too", Shorten(text))
		}
		a = Also{Type: text[:i], Count: int(n)}
	}
	return a, CheckType(a.Type)
}

// CheckAlso reports why a request for first cannot ask for those types, too: there are more than
// [MaxAlso], one is there twice, or a count is none.
func CheckAlso(first string, also []Also) error {
	if len(also) > MaxAlso {
		return fmt.Errorf("%d other types: a request asks for %d at the most", len(also), MaxAlso)
	}
	types := []string{first}
	for _, a := range also {
		if slices.Contains(types, a.Type) {
			return fmt.Errorf("type %q is there twice: ask for as many as you need of it in one place", a.Type)
		}
		if a.Count < 0 || a.Count > math.MaxInt32 {
			return fmt.Errorf("the count of type %q is %d: want 1 to %d", a.Type, a.Count, math.MaxInt32)
		}
		types = append(types, a.Type)
	}
	return nil
}

// textUnknown may follow [TextUnknownType] in the 404 to a request of several types; those without a
// pool follow, as Go's %q writes them.
const textUnknown = ": there are no pools of type"

// FormatUnknown returns what follows [TextUnknownType] for types without a pool.
func FormatUnknown(types []string) string {
	text := textUnknown
	for _, typ := range types {
		text += " " + strconv.Quote(typ)
	}
	return text
}

// ParseUnknown returns the types in a text that [FormatUnknown] is part of; none if it is not.
func ParseUnknown(text string) (types []string) {
	_, rest, _ := strings.Cut(text, TextUnknownType+textUnknown)
	for {
		quoted, err := strconv.QuotedPrefix(strings.TrimPrefix(rest, " "))
		if err != nil {
			return types
		}
		typ, err := strconv.Unquote(quoted)
		if err != nil || CheckType(typ) != nil || len(types) > MaxAlso {
			return types
		}
		types, rest = append(types, typ), strings.TrimPrefix(rest, " ")[len(quoted):]
	}
}

// AnyOf names the types of a request of also, for people, where any of them may be meant.
func AnyOf(first string, also []Also) string {
	text := strconv.Quote(first)
	for i, a := range also {
		sep := ", "
		if i == len(also)-1 {
			sep = " or "
		}
		text += sep + strconv.Quote(a.Type)
	}
	return text
}
