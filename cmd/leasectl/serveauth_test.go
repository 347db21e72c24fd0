package main

import (
	"testing"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
)

// A token may move from --tokens to --auth, or back: whichever file is read first, it is let in all
// the time, and in the end as the new file says.
func TestTokenMovesBetweenFiles(t *testing.T) {
	moved := auth.Sum{1}
	old, now := auth.Token{Name: "ci", Sum: moved}, auth.Token{Name: "ci", Sum: moved, Rights: auth.Rights{Pools: []string{"install"}}}
	inAuth := auth.Config{Tokens: []auth.Token{now}}
	var s settings
	take := func(c auth.Config, tokens []auth.Token) {
		t.Helper()
		if err := s.takeAuth(c, tokens); err != nil {
			t.Error(err)
		}
		if got := s.options.Auth.Tokens; len(got) != 1 || got[0].Sum != moved {
			t.Errorf("let in are %+v", got)
		}
	}
	take(auth.Config{}, []auth.Token{old})
	take(inAuth, s.tokens) // --auth is read while --tokens still has the line
	if got := s.options.Auth.Tokens[0]; len(got.Pools) != 1 {
		t.Errorf("it is the token of --tokens: %+v", got)
	}
	take(s.auth, nil)
	take(s.auth, []auth.Token{old}) // and back
	take(auth.Config{}, s.tokens)
}
