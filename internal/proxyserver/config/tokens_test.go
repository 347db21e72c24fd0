package config

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
)

func TestParseTokens(t *testing.T) {
	tokens, err := ParseTokens("t", []byte("# who\n\nred  r1-4567890123456\r\n\tred\tr2-4567890123456 admin\n#blue b\n  green g#1-567890123456\neye  e1-4567890123456 read\nimg i1-4567890123456 overcommit\nboth b1-4567890123456 overcommit admin\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tok := range tokens {
		got = append(got, fmt.Sprintf("%s/%v/%t", tok.Name, tok.Role, tok.Overcommit))
	}
	if s := strings.Join(got, ", "); s != "red/job/false, red/admin/false, green/job/false, eye/read/false, img/job/true, both/admin/true" {
		t.Errorf("tokens %s", s)
	}
	// An editor's mark of UTF-8 is no part of the first name.
	if marked, err := ParseTokens("t", []byte("\ufeffred r1-4567890123456\n")); err != nil || marked[0].Name != "red" {
		t.Errorf("%+v, %v", marked, err)
	}
	if fmt.Sprintf("%+v", tokens[0]) == "" || strings.Contains(fmt.Sprintf("%+v", tokens), "r1") {
		t.Error("tokens can be printed")
	}
}

func TestParseTokensErrors(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"", "t: there is no token in it"},
		{"# only\n\n", "t: there is no token in it"},
		{"red", "t:1: want a name, a token, and admin, read, overcommit or nothing"},
		{"red secret-7890123456 root", "t:1: after the name and the token there may only be the words admin or read, and overcommit"},
		{"red secret-7890123456 admin x", "t:1: after the name and the token there may only be the words admin or read, and overcommit"},
		{"red secret-7890123456 admin read", "t:1: after the name and the token there may only be the words admin or read, and overcommit"},
		{"red secret-7890123456 overcommit overcommit", "t:1: after the name and the token there may only be the words admin or read, and overcommit"},
		{"\x01 secret", `t:1: the name "\x01" has control characters, or is not UTF-8`},
		{"red: secret-7890123456", `t:1: the name "red:" ends in a colon: write the name, a blank, and the token`},
		{strings.Repeat("x", 65) + " secret", "t:1: the name is 65 bytes long: at most 64"},
		{"red sécret-7890123456", "t:1: the token holds white space or characters outside printable ASCII"},
		{"red 123456789012345", "t:1: the token is 15 bytes long, which can be guessed: at least 16, such as of openssl rand -hex 16"},
		{"a secret-7890123456\nb other-67890123456\nc secret-7890123456\nd", "t:3: the token is already in line 1\nt:4: want a name, a token, and admin, read, overcommit or nothing"},
		{strings.Repeat("x\n", 30), strings.TrimSuffix(strings.Repeat("t:%d: want a name, a token, and admin, read, overcommit or nothing\n", 10), "\n")},
	} {
		if strings.Contains(c.want, "%d") {
			c.want = fmt.Sprintf(c.want, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
		}
		if tokens, err := ParseTokens("t", []byte(c.file)); err == nil || err.Error() != c.want || tokens != nil {
			t.Errorf("%q: %v, want %s", c.file, err, c.want)
		}
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add([]byte("red r-token-90123456\nred r-second-0123456\nblue b-token-90123456\nops o-token-90123456 admin\n"), "r-token-90123456")
	f.Add([]byte("# x\n\na b c\n"), "b")
	f.Add([]byte("a b\r\nc b\r\n"), "")
	f.Add([]byte("a \xff\n\x00 b"), "\xff")
	f.Fuzz(func(t *testing.T, data []byte, shown string) {
		tokens, err := ParseTokens("t", data)
		if (err == nil) != (len(tokens) > 0) {
			t.Errorf("%d tokens and %v", len(tokens), err)
		}
		gate := auth.Open(&auth.Config{Tokens: tokens}, slog.New(slog.DiscardHandler))
		defer gate.Close()
		c, refusal := gate.Admit(t.Context(), "Bearer "+shown)
		shown = strings.TrimSpace(shown)
		if refusal == nil && (shown == "" || !strings.Contains(string(data), shown) || c.Name == "") {
			t.Errorf("%q lets in, as %+v", shown, c)
		}
	})
}
