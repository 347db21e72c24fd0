package ui

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/config"
)

// tokenFile has two tokens of one name.
const tokenFile = "red r-token-0123456789\nred other-token-0123456789\nops o-token-0123456789 admin\n"

// A session ends with its time, and with its token. The number of sessions of a token is bounded, and ends no other's.
func TestSessions(t *testing.T) {
	tokens, err := config.ParseTokens("t", []byte(tokenFile))
	if err != nil {
		t.Fatal(err)
	}
	var s sessions
	now := time.Now()
	among := func(tokens []auth.Token) func(auth.Sum) (auth.Token, bool) {
		gate := auth.Open(&auth.Config{Tokens: tokens}, slog.New(slog.DiscardHandler))
		t.Cleanup(gate.Close)
		return gate.TokenOf
	}
	value := s.begin(tokens[0], now)
	if got, ok := s.find(value, among(tokens), now.Add(sessionTime-1)); !ok || got.Sum != tokens[0].Sum {
		t.Errorf("%v, %v", got, ok)
	}
	if _, ok := s.find(value, among(tokens), now.Add(sessionTime)); ok {
		t.Error("it does not end")
	}
	value = s.begin(tokens[0], now)
	if _, ok := s.find(value, among(tokens[1:]), now); ok {
		t.Error("it outlives its token, although another one has the same name")
	}
	if _, ok := s.find(value, among(tokens), now); ok {
		t.Error("it comes back with its token")
	}
	value = s.begin(tokens[0], now)
	other, err := config.ParseTokens("t", []byte(strings.Replace(tokenFile, "red r-token-0123456789", "red r-token-0123456789 read", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.find(value, among(other), now); ok {
		t.Error("it outlives the role of its token")
	}
	first, others := s.begin(tokens[0], now), s.begin(tokens[2], now)
	for i := range mostSessions {
		s.begin(tokens[0], now.Add(time.Duration(i+1)))
	}
	if _, ok := s.find(first, among(tokens), now); ok || len(s.byID) > mostSessions+1 {
		t.Errorf("the oldest of a token with %d sessions did not end", len(s.byID)-1)
	}
	if _, ok := s.find(others, among(tokens), now); !ok {
		t.Error("the logins of one token end a session of another")
	}
}
