package lockfile

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/leasectl/leasectl/leaseapi"
)

func TestParseNames(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
		says string
	}{
		{"", nil, ""},
		{"\n \n\r\n", nil, ""},
		{"a\nb\n", []string{"a", "b"}, ""},
		{"a\nb", []string{"a", "b"}, ""},
		{"a\r\nb\r\n", []string{"a", "b"}, ""},
		{"\na\n\n\nb\n\n", []string{"a", "b"}, ""},
		{"b\na\nb\n", []string{"b", "a", "b"}, ""},
		{"a b\nc\n", []string{"c"}, "line 1 is no name of a lease"},
		{"a\r\r\n", nil, "line 1 is no name of a lease"},
		{"a\nb/c\nd\n", []string{"a", "d"}, "line 2 is no name of a lease"},
		{"a\n\xff\n/\n", []string{"a"}, "line 2"},
	} {
		got, err := parseNames([]byte(tt.text))
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: names %q, want %q", tt.text, got, tt.want)
		}
		if tt.says == "" && err != nil {
			t.Errorf("%q: %v", tt.text, err)
		}
		if tt.says != "" {
			wantError(t, err, tt.says)
		}
	}
}

// Names that pass the check come back from a file as they were.
func TestNamesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(rapid.String().Filter(func(s string) bool { return leaseapi.CheckName(s) == nil })).Draw(t, "names")
		got, err := parseNames(formatNames(names))
		if err != nil || !slices.Equal(got, names) {
			t.Fatalf("%q came back as %q, %v", names, got, err)
		}
	})
}

// Names that are read may also be written.
func TestParsedNamesAreNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.SampledFrom([]byte("a\xffé /\n\r\x00\t"))).Draw(t, "text")
		names, _ := parseNames(text)
		if err := checkNames(names); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSameNames(t *testing.T) {
	for _, tt := range []struct {
		a, b []string
		want bool
	}{
		{nil, []string{}, true},
		{[]string{"a", "b"}, []string{"b", "a"}, true},
		{[]string{"a"}, []string{"b"}, false},
		{[]string{"a", "a"}, []string{"a"}, false},
		{[]string{"a", "a", "b"}, []string{"a", "b", "b"}, false},
	} {
		if got := sameNames(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q: %v", tt.a, tt.b, got)
		}
	}
}
