package leaseapi

import (
	"slices"
	"strings"
	"testing"
)

func TestAlso(t *testing.T) {
	for text, want := range map[string]Also{
		"db": {Type: "db"}, "db=1": {"db", 1}, "a=b=2": {"a=b", 2}, "a b, c": {Type: "a b, c"},
	} {
		got, err := ParseAlso(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: %+v, %v, %q", text, got, err, got)
		}
	}
	for _, text := range []string{"", "=2", "db=", "db=0", "db=-1", "db=x", "a\nb", "db=9999999999", strings.Repeat("x", 300)} {
		if a, err := ParseAlso(text); err == nil {
			t.Errorf("%q is %+v", text, a)
		}
	}
	if text := (Also{Type: "a=b"}).String(); text != "a=b=1" {
		t.Errorf("a type with an equals sign is written %q", text)
	}
	if err := CheckAlso("a", []Also{{"b", 1}, {"c", 0}}); err != nil {
		t.Error(err)
	}
	for _, also := range [][]Also{{{Type: "a"}}, {{Type: "b"}, {Type: "b", Count: 2}}, make([]Also, MaxAlso+1)} {
		if CheckAlso("a", also) == nil {
			t.Errorf("%+v is no error", also)
		}
	}
}

func TestUnknown(t *testing.T) {
	types := []string{"a", `b "c" d`, "ä"}
	text := `Failed to acquire lease "a": ` + TextUnknownType + FormatUnknown(types) + "\n"
	if got := ParseUnknown(text); !slices.Equal(got, types) {
		t.Errorf("%s: %q", text, got)
	}
	for _, text := range []string{TextUnknownType, "", TextUnknownType + FormatUnknown(nil), FormatUnknown(types)} {
		if got := ParseUnknown(text); got != nil {
			t.Errorf("%s: %q", text, got)
		}
	}
}
