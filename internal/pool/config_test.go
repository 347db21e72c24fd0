package pool

import (
	"strings"
	"testing"
)

func TestConfigCheck(t *testing.T) {
	names := []string{"n"}
	for _, c := range []struct {
		name   string
		config Config
		want   string // empty: valid
	}{
		{"least", Config{Type: "t", Names: names}, ""},
		{"type may hold anything printable", Config{Type: "a b/c é", Names: names}, ""},
		{"longest", Config{Type: strings.Repeat("t", 255), Names: []string{strings.Repeat("n", 255)}}, ""},
		{"no type", Config{Names: names}, "type is empty"},
		{"long type", Config{Type: strings.Repeat("t", 256), Names: names}, "256 bytes"},
		{"type not UTF-8", Config{Type: "\xff", Names: names}, "not valid UTF-8"},
		{"type with newline", Config{Type: "a\nb", Names: names}, `contains '\n'`},
		{"no names", Config{Type: "t"}, "0 names"},
		{"too many names", Config{Type: "t", Names: make([]string, MaxCapacity+1)}, "100001 names"},
		{"empty name", Config{Type: "t", Names: []string{""}}, "name is empty"},
		{"name with slash", Config{Type: "t", Names: []string{"a/b"}}, `contains '/'`},
		{"name with space", Config{Type: "t", Names: []string{"a b"}}, `contains ' '`},
		{"name with wide space", Config{Type: "t", Names: []string{"a\u2003b"}}, "contains"},
		{"name with escape", Config{Type: "t", Names: []string{"\x1b"}}, "contains"},
		{"negative TTL", Config{Type: "t", Names: names, DefaultTTL: -1}, "negative"},
		{"default above maximum", Config{Type: "t", Names: names, DefaultTTL: 2, MaxTTL: 1}, "above the maximum"},
		{"version 1 at the maximum", Config{Type: "t", Names: names, V1TTL: 1, MaxTTL: 1}, ""},
		{"version 1 above the maximum", Config{Type: "t", Names: names, V1TTL: 2, MaxTTL: 1}, "above the maximum"},
		{"negative waiters", Config{Type: "t", Names: names, MaxWaiters: -1}, "negative"},
		{"a word as unit", Config{Type: "t", Units: 1, Unit: "call"}, ""},
		{"unit with newline", Config{Type: "t", Units: 1, Unit: "a\nb"}, `contains '\n'`},
		{"long unit", Config{Type: "t", Units: 1, Unit: strings.Repeat("u", 256)}, "256 bytes"},
		{"negative pace", Config{Type: "t", Names: names, Pace: -1}, "pace is negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.config.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestNewRefusesDuplicates(t *testing.T) {
	for _, c := range []struct {
		name    string
		configs []Config
		want    string
	}{
		{"type", []Config{{Type: "t", Names: []string{"a"}}, {Type: "t", Names: []string{"b"}}}, "two pools of this type"},
		{"name in a pool", []Config{{Type: "t", Names: []string{"a", "a"}}}, `name "a" is already in pool "t"`},
		{"name in two pools", []Config{{Type: "t", Names: []string{"a"}}, {Type: "u", Names: []string{"a"}}}, `pool "u": name "a" is already in pool "t"`},
	} {
		if _, err := New(c.configs, Snapshot{}, PriorityAging); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}
