package console

import "testing"

// A live line is cut by columns, not by bytes or characters, and leaves the last column free.
func TestCutToWidth(t *testing.T) {
	for _, tt := range []struct {
		text  string
		width int
		want  string
	}{
		{"waiting", 8, "waiting"},
		{"waiting", 7, "waitin"},
		{"wäiting…", 9, "wäiting…"},
		{"wäiting…", 8, "wäiting"},
		{"wäiting…", 3, "wä"},
		{"鍵 held", 8, "鍵 held"}, // a wide character takes two columns
		{"鍵 held", 7, "鍵 hel"},
		{"한국", 4, "한"},
		{"\u1112\u1161", 3, "\u1112"}, // the same sound in parts: the first is wide
		{"waiting", 0, "waiting"},
		{"waiting", 1, "waiting"},
		{"", 80, ""},
	} {
		if got := CutToWidth(tt.text, tt.width); got != tt.want {
			t.Errorf("CutToWidth(%q, %d) = %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}
