package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseTokens(t *testing.T) {
	tokens, err := ParseTokens("t", []byte("# who\n\nred  r1\r\n\tred\tr2 admin\n#blue b\n  green g#1\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tok := range tokens {
		got = append(got, fmt.Sprintf("%s %v", tok.Name, tok.Admin))
	}
	if s := strings.Join(got, ", "); s != "red false, red true, green false" {
		t.Errorf("tokens %s", s)
	}
	for shown, want := range map[string]string{
		"Bearer r1": "red", "bearer r1": "red", "Bearer  g#1 ": "green", "Bearer r2": "red",
		"": "", "r1": "", "Bearer": "", "Bearer ": "", "Bearer r": "", "Bearer r12": "", "Basic r1": "", "Bearer b": "", "Bearer red": "", "Bearer r1 r2": "",
	} {
		if tok, ok := tokens.Find(shown); tok.Name != want || ok != (want != "") {
			t.Errorf("%q is of %q, %v, want %q", shown, tok.Name, ok, want)
		}
	}
	if fmt.Sprintf("%+v", tokens[0]) == "" || strings.Contains(fmt.Sprintf("%+v", tokens), "r1") {
		t.Error("tokens can be printed")
	}
}

func TestParseTokensErrors(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"", "t: there is no token in it"},
		{"# only\n\n", "t: there is no token in it"},
		{"red", "t:1: want a name, a token, and admin or nothing"},
		{"red secret root", "t:1: after the name and the token there may only be the word admin"},
		{"red secret admin x", "t:1: after the name and the token there may only be the word admin"},
		{"\x01 secret", `t:1: the name "\x01" has control characters, or is not UTF-8`},
		{strings.Repeat("x", 65) + " secret", "t:1: the name is 65 bytes long: at most 64"},
		{"red sécret", "t:1: the token has characters outside printable ASCII"},
		{"a secret\nb other\nc secret\nd", "t:3: the token is already in line 1\nt:4: want a name, a token, and admin or nothing"},
		{strings.Repeat("x\n", 30), strings.TrimSuffix(strings.Repeat("t:%d: want a name, a token, and admin or nothing\n", 10), "\n")},
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
	f.Add([]byte("red r-token\nred r-second\nblue b-token\nops o-token admin\n"), "r-token")
	f.Add([]byte("# x\n\na b c\n"), "b")
	f.Add([]byte("a b\r\nc b\r\n"), "")
	f.Add([]byte("a \xff\n\x00 b"), "\xff")
	f.Fuzz(func(t *testing.T, data []byte, shown string) {
		tokens, err := ParseTokens("t", data)
		if (err == nil) != (len(tokens) > 0) {
			t.Errorf("%d tokens and %v", len(tokens), err)
		}
		tok, ok := tokens.Find("Bearer " + shown)
		shown = strings.TrimSpace(shown)
		if ok && (shown == "" || !strings.Contains(string(data), shown) || tok.Name == "") {
			t.Errorf("%q lets in, as %+v", shown, tok)
		}
	})
}
