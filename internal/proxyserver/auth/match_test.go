package auth

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		glob, text string
		want       bool
	}{
		{"a", "a", true}, {"a", "A", false}, {"a", "ab", false}, {"a", "", false}, {"", "", true}, {"", "a", false},
		{"*", "", true}, {"*", "a/b\nc", true}, {"acme/*", "acme/app", true}, {"acme/*", "acme/a/b/../c", true}, {"acme/*", "acme/", true},
		{"acme/*", "acme", false}, {"acme/*", "evil/acme/app", false}, {"acme/*", "ACME/app", false},
		{"*/app", "acme/app", true}, {"*/app", "acme/app/x", false}, {"a*b*c", "a-b-b-c", true}, {"a*b*c", "acb", false}, {"a*a", "a", false},
		{"*a*", "bab", true}, {"*a*", "bb", false}, {"**", "x", true}, {"a*", "a", true}, {"*ab", "aab", true}, {"*.*", "..", true},
		{"a?c", "abc", false}, {"a?c", "a?c", true}, {"[ab]", "a", false}, {"[ab]", "[ab]", true}, {`\*`, `\x`, true}, {`a.c`, `abc`, false},
		{"refs/heads/main", "refs/heads/main2", false}, {"refs/heads/*", "refs/heads/../tags/x", true},
	} {
		if got := Match(c.glob, c.text); got != c.want {
			t.Errorf("%q matches %q: %v", c.glob, c.text, got)
		}
	}
	// A matcher that goes back to each star would not end.
	if Match(strings.Repeat("*a", 500)+"b", strings.Repeat("a", 1<<16)) {
		t.Error("a text without b matches")
	}
}

// How long it takes to look for a token of the file says nothing about which tokens there are: an
// attempt that shares nothing with any of them takes as long as one that is the first. A search
// that stops at what it finds would differ by the number of tokens.
func TestTimingOfTokens(t *testing.T) {
	tokens := make([]Token, 5000)
	for i := range tokens {
		tokens[i] = Token{Name: "t", Sum: sha256.Sum256([]byte(strconv.Itoa(i)))}
	}
	took := func(secret string) time.Duration {
		least := time.Hour
		for range 20 {
			begun := time.Now()
			find(tokens, secret)
			least = min(least, time.Since(begun))
		}
		return least
	}
	for try := range 5 { // other work on the machine may disturb some of them
		first, last, none := took("0"), took("4999"), took("none")
		if most, least := max(first, last, none), min(first, last, none); most < 3*least {
			return
		} else if try == 4 {
			t.Errorf("the first took %v, the last %v, none %v", first, last, none)
		}
	}
}

func TestNames(t *testing.T) {
	has := claims{"repository": "acme/app", "ref": "{repository}", "empty": ""}
	for template, want := range map[Template]string{
		"{repository}": "acme/app", "gh:{repository}@{ref}": "gh:acme/app@{repository}", "all": "all",
		"{none}": "", "{empty}": "", "x{empty}": "",
	} {
		name, _, ok := has.match([]Rule{{Claims: map[string]string{"repository": "acme/*"}, Name: template}})
		if name != want || ok != (want != "") {
			t.Errorf("%q is %q, %v", template, name, ok)
		}
	}
}

// All claims of a rule must be there, also those that no name needs.
func TestMissingClaim(t *testing.T) {
	rule := Rule{Claims: map[string]string{"repository": "acme/*", "environment": "*"}, Name: "{repository}"}
	if name, _, ok := (claims{"repository": "acme/app"}).match([]Rule{rule}); ok {
		t.Errorf("it is %q without an environment", name)
	}
	if name, _, ok := (claims{"repository": "acme/app", "environment": ""}).match([]Rule{rule}); !ok || name != "acme/app" {
		t.Errorf("it is %q, %v with an empty one", name, ok)
	}
}

// A caller who may not do something is told what it may.
func TestLimits(t *testing.T) {
	c := Caller{Name: "acme/app", Rights: Rights{Pools: []string{"install", "aws-*"}, MaxPriority: 10}}
	if err := c.CheckPool("gcp-1"); err == nil || err.Error() != `acme/app may not use pool "gcp-1", but install, aws-*` {
		t.Error(err)
	}
	if err := c.CheckPriority(11); err == nil || err.Error() != "priority 11 is more than this token may ask for: it may ask for 10 at the most" {
		t.Error(err)
	}
	for _, err := range []error{c.CheckPool("aws-2"), c.CheckPool("install"), c.CheckPriority(10), c.CheckPriority(-100), (Caller{Name: "x"}).CheckPool("any")} {
		if err != nil {
			t.Error(err)
		}
	}
}
