package config

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
)

const secret = "a-secret-of-sixteen-bytes"

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestParseAuth(t *testing.T) {
	file := `tokens:
- {name: ci, sha256: ` + sumOf("x") + `, pools: ["aws-*"], max_priority: 10, overcommit: true, max_leases: 50, max_waiters: 20}
- {name: ops, secret_file: ops.token, role: admin}
- {name: eye, sha256: ` + strings.Repeat("1", 64) + `, role: read}
issuers:
- issuer: https://token.actions.githubusercontent.com
  audience: leasectl
  rules:
  - claims: {repository: "acme/*", ref: refs/heads/main}
    name: "{repository}"
    pools: [install]
    max_priority: 50
    max_leases: 3
  - {claims: {repository: "acme/*"}, name: "{repository}", pools: [install], role: job}
- issuer: https://kubernetes.default.svc
  ca: ca.crt
  token_file: /var/run/token
  audience: leasectl
  rules: [{claims: {sub: "system:serviceaccount:ci:*"}, name: "{sub}"}]
`
	got, err := ParseAuth("/etc/l/auth.yaml", []byte(file), map[string][]byte{"/etc/l/ops.token": []byte(secret + "\n")})
	if err != nil {
		t.Fatal(err)
	}
	ones := auth.Sum{}
	for i := range ones {
		ones[i] = 0x11
	}
	want := auth.Config{
		Tokens: []auth.Token{
			{Name: "ci", Sum: sha256.Sum256([]byte("x")), Rights: auth.Rights{Pools: []string{"aws-*"}, MaxPriority: 10, Overcommit: true, Share: pool.Share{Leases: 50, Waiters: 20}}},
			{Name: "ops", Sum: sha256.Sum256([]byte(secret)), Rights: auth.Rights{Role: auth.RoleAdmin}},
			{Name: "eye", Sum: ones, Rights: auth.Rights{Role: auth.RoleRead}},
		},
		Issuers: []auth.Issuer{
			{URL: "https://token.actions.githubusercontent.com", Audience: "leasectl", Rules: []auth.Rule{
				{Claims: map[string]string{"repository": "acme/*", "ref": "refs/heads/main"}, Name: "{repository}", Rights: auth.Rights{Pools: []string{"install"}, MaxPriority: 50, Share: pool.Share{Leases: 3}}},
				{Claims: map[string]string{"repository": "acme/*"}, Name: "{repository}", Rights: auth.Rights{Pools: []string{"install"}}},
			}},
			{URL: "https://kubernetes.default.svc", Audience: "leasectl", CAFile: "/etc/l/ca.crt", TokenFile: "/var/run/token", Rules: []auth.Rule{
				{Claims: map[string]string{"sub": "system:serviceaccount:ci:*"}, Name: "{sub}"},
			}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseAuthErrors(t *testing.T) {
	sum := sumOf("x")
	issuer := func(rest string) string { return "issuers:\n- {issuer: https://a.example, " + rest + "}" }
	rules := func(rule string) string { return issuer("audience: a, rules: [" + rule + "]") }
	for _, c := range []struct{ file, want string }{
		{"", "f:1:1: the file is empty"},
		{"{}", "f:1:1: there are neither tokens nor issuers: nobody could get in"},
		{"tokens: []", "f:1:9: tokens is empty"},
		{"token: []", `f:1:1: key "token" is not known`},
		{"tokens:\n- {sha256: " + sum + "}", "f:2:3: the token has no name"},
		{"tokens:\n- {name: a}", `f:2:3: token "a": want one of sha256 and secret_file`},
		{"tokens:\n- {name: a, sha256: " + sum + ", secret_file: long}", `f:2:3: token "a": want one of sha256 and secret_file`},
		{"tokens:\n- {name: a, sha256: abc}", "f:2:21: want the 64 hexadecimal digits that printf %s SECRET | sha256sum prints"},
		{"tokens:\n- {name: a, secret_file: short}", "f:2:26: short: the token is 5 bytes long, which can be guessed: at least 16, such as of openssl rand -hex 16"},
		{"tokens:\n- {name: a, sha256: " + sum + ", role: root}", `f:2:93: role "root": want job, read or admin`},
		{"tokens:\n- {name: a, sha256: " + sum + ", pools: []}", "f:2:94: pools is empty"},
		{"tokens:\n- {name: a, sha256: " + sum + ", max_priority: 101}", "f:2:101: max_priority 101 is more than 100"},
		{"tokens:\n- {name: a, sha256: " + sum + ", max_leases: 0}", "f:2:99: max_leases 0 is less than 1"},
		{"tokens:\n- {name: a, sha256: " + sum + ", max_waiters: many}", "f:2:100: max_waiters is not a whole number"},
		{"tokens:\n- {name: a, sha256: " + sum + ", overcommit: 5}", "f:2:99: overcommit is neither true nor false"},
		{"tokens:\n- {name: a, sha256: " + sum + "}\n- {name: b, sha256: " + sum + "}", "f:3:21: the token is already in line 2"},
		{"tokens:\n- {name: \"a\\x01\", sha256: " + sum + "}", `f:2:10: the name "a\x01" has control characters, or is not UTF-8`},
		{"issuers:\n- {audience: a}", "f:2:3: issuer is missing"},
		{issuer("rules: [{claims: {sub: a}, name: a}]"), `f:2:3: issuer "https://a.example" has no audience: a token that was made for somebody else would do`},
		{issuer("audience: a"), `f:2:3: issuer "https://a.example" has no rules: it would let nobody in`},
		{"issuers:\n- {issuer: http://a.example}", `f:2:12: issuer "http://a.example": want https: over http anybody on the way could sign tokens`},
		{"issuers:\n- {issuer: a.example}", `f:2:12: issuer "a.example": want https://HOST/PATH`},
		{rules("{name: a}"), `f:2:52: the rule has no claims: all that the issuer vouches for could get in; if that is meant, claims: {sub: "*"}`},
		{rules("{claims: {sub: a}}"), `f:2:52: the rule has no name, such as "{sub}"`},
		{rules("{claims: {sub: a}, name: \"{sub\"}"), `f:2:77: name "{sub": want the name of a claim in braces, such as {sub}`},
		{rules("{claims: {sub: a}, name: \"sub}\"}"), `f:2:77: name "sub}" has a } without a {`},
		{rules("{claims: {sub: a}, name: \"{}\"}"), `f:2:77: name "{}": want the name of a claim in braces, such as {sub}`},
		{rules("{claims: {owner_id: 5}, name: a}"), "f:2:72: claim owner_id is a number, not a string; quotes make it one"},
		{rules("{claims: {sub: a}, name: a}") + "\n- {issuer: https://a.example}", `f:3:12: issuer "https://a.example" is already there: give it one list of rules`},
	} {
		_, err := ParseAuth("f", []byte(c.file), map[string][]byte{"short": []byte("12345"), "long": []byte(secret)})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.file, err, c.want)
		}
	}
}

// A secret that was replaced in its own file is a change of the source; a file that is bad keeps
// the old secrets.
func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("auth.yaml", "tokens:\n- {name: ci, secret_file: ci.token}\n- {name: two, secret_file: ci2.token}\n")
	write("ci.token", secret+"\n")
	write("ci2.token", secret+"-2")
	var got auth.Config
	source := AuthFrom("auth", filepath.Join(dir, "auth.yaml"), func(Warning) {}, func(c auth.Config) error { got = c; return nil })
	if err := Start(t.Context(), []*Source{source}, func(Warning) {}); err != nil {
		t.Fatal(err)
	}
	has := func(want string) bool { return got.Tokens[0].Sum == sha256.Sum256([]byte(want)) }
	if !has(secret) {
		t.Errorf("at the start: %+v", got)
	}
	look := func(times int) (applied int, err error) {
		for range times {
			tried, failed := source.look(false)
			if tried {
				applied, err = applied+1, failed
			}
		}
		return applied, err
	}
	if n, err := look(3); n != 0 || err != nil {
		t.Errorf("nothing has changed, and it was applied %d times (%v)", n, err)
	}
	write("ci.token", "another-"+secret)
	if n, err := look(3); n != 1 || err != nil || !has("another-"+secret) {
		t.Errorf("applied %d times (%v)", n, err)
	}
	write("ci.token", "short")
	if n, err := look(3); n != 1 || err == nil || !strings.Contains(err.Error(), "auth.yaml:2:") || !has("another-"+secret) {
		t.Errorf("applied %d times (%v)", n, err)
	}
	if err := os.Remove(filepath.Join(dir, "ci.token")); err != nil {
		t.Fatal(err)
	}
	if n, err := look(3); n != 1 || err == nil || !has("another-"+secret) {
		t.Errorf("applied %d times (%v)", n, err)
	}
}

// The token that a server shows to an issuer is for hosts that a certain authority vouches for.
func TestTokenFileNeedsCA(t *testing.T) {
	_, err := ParseAuth("/etc/l/auth.yaml", []byte(`issuers:
- issuer: https://kubernetes.default.svc
  token_file: /var/run/token
  audience: leasectl
  rules: [{claims: {sub: "*"}, name: "{sub}"}]
`), nil)
	if err == nil || !strings.Contains(err.Error(), "token_file and no ca") {
		t.Errorf("%v", err)
	}
}
