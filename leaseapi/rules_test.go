package leaseapi

import (
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	long := strings.Repeat("a", MaxName)
	for _, test := range []struct {
		what  string
		check func(string) error
		good  []string
		bad   []string
	}{
		{"name", CheckName,
			[]string{"a", "install-0", "us-east-1--quota-slice-01", "10.0.0.1", "...", ".a", "a-", "`id`", "ü", "a#1", "a::b", long},
			[]string{"", ".", "..", "-", "-rf", "a,b", ",", "a\u202eb", "a\u2066", "a\u200eb", "a\u061c", "a\u200bb", "a\u2028b", " ", "a b", "a\tb", "a\n", "a/b", "..\x00", "a\x7f", "a\u0085", "a\u00a0b", "\xff", "\ufffd", "a##[b]", "::b::", long + "a"}},
		{"type", CheckType,
			[]string{"install", "aws quota slice", "a/b", "ü", long},
			[]string{"", "a\nb", "a\x1b[2J", "\xff", long + "a"}},
		{"request id", CheckRequestID,
			[]string{"a", "JBSWY3DP", "0-_~.", strings.Repeat("a", MaxRequestID)},
			[]string{"", ".", "..", ".a", "a/b", "a b", "a%20b", "ü", "a\n", "a?b", strings.Repeat("a", MaxRequestID+1)}},
		{"owner", CheckOwner,
			[]string{"", "https://prow.example/view/1", "me@host", strings.Repeat("a", MaxOwner)},
			[]string{"a\nb", "\xff", strings.Repeat("a", MaxOwner+1)}},
		{"key", CheckKey,
			[]string{"k", "cluster a/b", "ü", strings.Repeat("a", MaxKey)},
			[]string{"", "a\nb", "a\x7f", "\xff", strings.Repeat("a", MaxKey+1)}},
		{"unit", CheckUnit,
			[]string{"1Mi", "call", "API call", "ü", long},
			[]string{"", "a\nb", "a\x1b[2J", "\xff", long + "a"}},
		{"reason", CheckReason,
			[]string{"account is being emptied", strings.Repeat("a", MaxReason)},
			[]string{"", "a\nb", "\xff", strings.Repeat("a", MaxReason+1)}},
	} {
		for _, text := range test.good {
			if err := test.check(text); err != nil {
				t.Errorf("%s %.40q is refused: %v", test.what, text, err)
			}
		}
		for _, text := range test.bad {
			if err := test.check(text); err == nil {
				t.Errorf("%s %.40q is accepted", test.what, text)
			} else if Printable(err.Error()) != err.Error() {
				t.Errorf("%s %.40q: the error is no clean line: %q", test.what, text, err)
			}
		}
	}
}

func TestPrintable(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"plain, with ü and 漢", "plain, with ü and 漢"},
		{"two\nlines\r\n", "two lines"},
		{"\x1b[2Jcleared\a", "[2Jcleared"},
		{"a\u202eb", "a b"}, // right-to-left override
		{"\u0085\u00a0 a \t b", "a b"},
		{"\xff", "?"},
		{"##vso[a b]c ####[d] #1 #\u200b#", "# #vso[a b]c # # # #[d] #1 # #"},
	} {
		if got := Printable(test.text); got != test.want {
			t.Errorf("Printable(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"as it is", 8, "as it is"},
		{"a\nlonger one", 8, "a longer"},
		{"a  longer one", 2, "a"},
		{"ab漢", 4, "ab"}, // a character has three bytes
		{"ab漢", 5, "ab漢"},
	} {
		if got := Clip(test.text, test.most); got != test.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", test.text, test.most, got, test.want)
		}
	}
}

// A text that could be a name is shown whole. A longer text is cut, but never within a
// character.
func TestShorten(t *testing.T) {
	name := strings.Repeat("ü", MaxName/2)
	for text, want := range map[string]string{
		"":                          "",
		name:                        name,
		name + "xx":                 name + "xx",
		name + "xü":                 strings.Repeat("ü", 30) + "…",
		"x" + name + "ü":            "x" + strings.Repeat("ü", 29) + "…",
		strings.Repeat("\x80", 300): strings.Repeat("\x80", 56) + "…",
	} {
		if got := Shorten(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestOneTypo(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"type", "typ", true}, {"type", "typpe", true}, {"type", "tope", true}, {"type", "tpye", true},
		{"local", "locl", true}, {"", "a", true},
		{"type", "type", false}, {"type", "ty", false}, {"type", "yt", false}, {"throttled-on", "throttled-log", false}, {"", "", false},
	} {
		if OneTypo(tt.a, tt.b) != tt.want || OneTypo(tt.b, tt.a) != tt.want {
			t.Errorf("one typo between %q and %q: want %v", tt.a, tt.b, tt.want)
		}
	}
}
