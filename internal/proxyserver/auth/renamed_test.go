package auth_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
)

// Who gets another name by a change of the file is a new caller: the log says so. Other changes, and the
// first file, say nothing.
func TestRenamedCallersAreLogged(t *testing.T) {
	config := func(token string, rules ...auth.Rule) *auth.Config {
		return &auth.Config{
			Tokens:  []auth.Token{{Name: token, Sum: auth.Sum{1}}},
			Issuers: []auth.Issuer{{URL: "https://i.example", Audience: "a", Rules: rules}},
		}
	}
	rule := func(repository string, name auth.Template, rights auth.Rights) auth.Rule {
		return auth.Rule{Claims: map[string]string{"repository": repository}, Name: name, Rights: rights}
	}
	var log strings.Builder
	g := auth.Open(config("ci", rule("acme/*", "{repository}", auth.Rights{})), slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(g.Close)
	same := rule("acme/*", "{repository}", auth.Rights{MaxPriority: 3})
	g.Set(config("ci", rule("other/*", "{sub}", auth.Rights{}), same))
	if log.Len() > 0 {
		t.Errorf("nothing was renamed: %s", log.String())
	}
	g.Set(config("cd", rule("acme/*", "{sub}", auth.Rights{})))
	for _, want := range []string{`token=cd was=ci`, `issuer=https://i.example name={sub} was={repository}`, "new callers"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s: %s", want, log.String())
		}
	}
}
