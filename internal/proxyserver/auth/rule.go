package auth

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// Rule gives the callers whose claims match a name and rights.
type Rule struct {
	Claims map[string]string // globs by claim, see [Match]; all must match
	Name   Template
	Rights
}

// Template is a text in which {claim} stands for a claim.
type Template string

// Check returns an error if t has a brace without its other, or no text at all.
func (t Template) Check() error {
	if t == "" {
		return errors.New("name is empty")
	}
	_, err := t.fill(func(string) (string, bool) { return "x", true })
	return err
}

// Claims returns the claims that t names.
func (t Template) Claims() (names []string) {
	t.fill(func(claim string) (string, bool) {
		names = append(names, claim)
		return "", true
	})
	return names
}

var errNoClaim = errors.New("a claim is missing")

// fill returns t with the claims' texts.
func (t Template) fill(claim func(string) (string, bool)) (string, error) {
	var filled strings.Builder
	rest := string(t)
	for {
		before, after, open := strings.Cut(rest, "{")
		if strings.Contains(before, "}") {
			return "", fmt.Errorf("name %q has a } without a {", string(t))
		}
		filled.WriteString(before)
		if !open {
			return filled.String(), nil
		}
		name, next, closed := strings.Cut(after, "}")
		if !closed || name == "" || strings.Contains(name, "{") {
			return "", fmt.Errorf("name %q: want the name of a claim in braces, such as {sub}", string(t))
		}
		text, ok := claim(name)
		if !ok {
			return "", errNoClaim
		}
		filled.WriteString(text)
		rest = next
	}
}

// claims are the claims of a token that are texts. Others match nothing.
type claims map[string]string

// textClaims returns those of all claims that are texts.
func textClaims(all map[string]any) claims {
	texts := make(claims, len(all))
	for name, value := range all {
		if text, ok := value.(string); ok {
			texts[name] = text
		}
	}
	return texts
}

// match returns the name and the rights that the first matching rule gives to c.
func (c claims) match(rules []Rule) (name string, rights Rights, ok bool) {
	for _, r := range rules {
		if name, ok := r.nameOf(c); ok {
			return name, r.Rights, true
		}
	}
	return "", Rights{}, false
}

// nameOf returns the name of a caller with claims c; false if the rule does not match.
func (r Rule) nameOf(c claims) (string, bool) {
	for claim, glob := range r.Claims {
		if text, ok := c[claim]; !ok || !Match(glob, text) {
			return "", false
		}
	}
	name, err := r.Name.fill(func(claim string) (string, bool) {
		text, ok := c[claim]
		return text, ok && text != ""
	})
	if err != nil || leaseapi.CheckOwner(name) != nil {
		return "", false
	}
	return name, true
}

// describe returns c as text for a caller that no rule matches: the claims that rules look at come first.
func (c claims) describe(rules []Rule) string {
	looked := make(map[string]bool)
	for _, r := range rules {
		for claim := range r.Claims {
			looked[claim] = true
		}
		for _, claim := range r.Name.Claims() {
			looked[claim] = true
		}
	}
	order := func(a, b string) int {
		if looked[a] != looked[b] {
			return map[bool]int{true: -1, false: 1}[looked[a]]
		}
		return cmp.Compare(a, b)
	}
	var text strings.Builder
	for _, claim := range slices.SortedFunc(maps.Keys(c), order) {
		part := leaseapi.Printable(leaseapi.Shorten(claim) + "=" + leaseapi.Shorten(c[claim]))
		if text.Len()+len(part) > mostClaims {
			text.WriteString(" …")
			break
		}
		if text.Len() > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(part)
	}
	return text.String()
}

// mostClaims is how much of the claims an answer shows, in bytes. Clients show a line of about a
// kilobyte.
const mostClaims = 800
