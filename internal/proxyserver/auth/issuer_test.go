package auth_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/auth/authtest"
)

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// forge returns a token with any header, payload and signature.
func forge(header, payload, signature string) string {
	text := base64.RawURLEncoding.EncodeToString
	return text([]byte(header)) + "." + text([]byte(payload)) + "." + text([]byte(signature))
}

// trust returns what a server's file says that trusts an issuer.
func trust(i *authtest.Issuer) auth.Issuer {
	return auth.Issuer{URL: i.URL, Audience: "leasectl", Rules: []auth.Rule{
		{Claims: map[string]string{"repository": "acme/*"}, Name: "{repository}", Rights: auth.Rights{Pools: []string{"install"}, MaxPriority: 50}},
	}}
}

var silent = slog.New(slog.DiscardHandler)

func open(t *testing.T, c auth.Config) *auth.Gate {
	g := auth.Open(&c, silent)
	t.Cleanup(g.Close)
	return g
}

// admit shows a token, and returns who is let in, or why nobody is.
func admit(t *testing.T, g *auth.Gate, token string) string {
	t.Helper()
	c, refusal := g.Admit(t.Context(), "Bearer "+token)
	if refusal != nil {
		if c.Name != "" {
			t.Errorf("%s is let in and refused", c.Name)
		}
		return string(refusal.Reason)
	}
	return c.Name
}

// A good token of every kind of key lets its bearer in, under the name and with the rights of the
// first rule that matches.
func TestGoodTokens(t *testing.T) {
	i := authtest.NewIssuer(t)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []authtest.Key{{ID: "rsa", Private: rsaKey(), Alg: jose.RS256}, {ID: "pss", Private: rsaKey(), Alg: jose.PS384}, authtest.NewKey(t, "ec"), {ID: "ed", Private: edKey, Alg: jose.EdDSA}}
	i.Publish(kinds...)
	g := open(t, auth.Config{Issuers: []auth.Issuer{trust(i)}})
	for _, k := range kinds {
		c, refusal := g.Admit(t.Context(), "bearer "+k.Sign(t, i.Claims(nil)))
		if refusal != nil || c.Name != "acme/app" || c.Issuer != i.URL || c.MaxPriority != 50 || !c.MayUse("install") || c.MayUse("other") {
			t.Errorf("%s: %+v, %v", k.Alg, c, refusal)
		}
		if left := time.Until(c.Until); left < 4*time.Minute || left > 5*time.Minute {
			t.Errorf("%s ends in %v", k.Alg, left)
		}
	}
	one := authtest.NewIssuer(t)
	one.Publish(kinds[2])
	single := open(t, auth.Config{Issuers: []auth.Issuer{trust(one)}})
	unnamed := authtest.Key{ID: "", Private: kinds[2].Private, Alg: kinds[2].Alg}
	if got := admit(t, single, unnamed.Sign(t, one.Claims(nil))); got != "acme/app" {
		t.Errorf("no kid, and one key: %s", got)
	}
	for name, changes := range map[string]map[string]any{
		"several audiences":           {"aud": []string{"other", "leasectl"}},
		"ended within the leeway":     {"exp": time.Now().Add(-50 * time.Second).Unix()},
		"begins within the leeway":    {"nbf": time.Now().Add(50 * time.Second).Unix(), "iat": time.Now().Add(50 * time.Second).Unix()},
		"neither nbf nor iat":         {"nbf": nil, "iat": nil},
		"claims that are not text":    {"extra": []int{1}, "more": map[string]any{"a": 1}, "n": 5},
		"a time with a fraction":      {"exp": float64(time.Now().Unix()) + 99.5},
		"a claim that names a source": {"_claim_names": map[string]string{}},
	} {
		if got := admit(t, g, kinds[0].Sign(t, i.Claims(changes))); got != "acme/app" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Each of these tokens is refused, for the reason that the log names and the answer does not.
func TestBadTokens(t *testing.T) {
	i := authtest.NewIssuer(t)
	good, stranger, encryption := authtest.Key{ID: "rsa", Private: rsaKey(), Alg: jose.RS256}, authtest.NewKey(t, "rsa"), authtest.NewKey(t, "enc")
	i.Publish(good)
	only := encryption.Public()
	only.Use = "enc"
	shared := jose.JSONWebKey{Key: []byte("a secret that the issuer should not have told"), KeyID: "shared"}
	pinned := good.Public()
	pinned.KeyID, pinned.Algorithm = "pinned", string(jose.RS512)
	i.PublishRaw(only, shared, pinned)
	other := authtest.NewIssuer(t)
	other.Publish(good)
	g := open(t, auth.Config{
		Tokens:  []auth.Token{{Name: "ci", Sum: mustSum(t, "a-secret-of-sixteen")}},
		Issuers: []auth.Issuer{trust(i), {URL: other.URL, Audience: "leasectl", Rules: []auth.Rule{{Claims: map[string]string{"sub": "nobody"}, Name: "x"}}}},
	})
	signed := func(changes map[string]any) string { return good.Sign(t, i.Claims(changes)) }
	// more adds claims at the end, such as one that a reader who takes no notice of capitals would believe.
	more := func(changes map[string]any, claims string) string {
		text, err := json.Marshal(i.Claims(changes))
		if err != nil {
			t.Fatal(err)
		}
		return good.SignText(t, strings.TrimSuffix(string(text), "}")+","+claims+"}")
	}
	now := time.Now().Unix()
	whole := signed(nil)
	payload := strings.Split(whole, ".")[1]
	text, err := json.Marshal(i.Claims(nil))
	if err != nil {
		t.Fatal(err)
	}
	publicPEM, err := json.Marshal(good.Public())
	if err != nil {
		t.Fatal(err)
	}
	hmac := func(secret []byte, id string) string {
		return authtest.Sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: secret, KeyID: id}}, nil, string(text))
	}
	withOwnKey := authtest.Sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: stranger.Private}, &jose.SignerOptions{EmbedJWK: true}, string(text))
	header := func(text string) string {
		parts := strings.Split(whole, ".")
		return base64.RawURLEncoding.EncodeToString([]byte(text)) + "." + parts[1] + "." + parts[2]
	}

	if got := admit(t, g, whole); got != "acme/app" { // the keys are fetched
		t.Fatalf("the good token: %s", got)
	}
	for name, c := range map[string]struct {
		token string
		want  auth.Reason
	}{
		"nothing":                               {"", auth.UnknownToken},
		"a word":                                {"hello", auth.UnknownToken},
		"almost the secret of the file":         {"a-secret-of-sixteem", auth.UnknownToken},
		"two dots":                              {"..", auth.UnknownToken},
		"four parts":                            {whole + ".x", auth.UnknownToken},
		"alg none":                              {forge(`{"alg":"none","kid":"rsa"}`, string(text), ""), auth.Malformed},
		"alg None":                              {forge(`{"alg":"None","kid":"rsa"}`, string(text), ""), auth.Malformed},
		"no alg":                                {forge(`{"kid":"rsa"}`, string(text), ""), auth.Malformed},
		"alg none with a signature":             {header(`{"alg":"none","kid":"rsa"}`), auth.Malformed},
		"HS256 with the public key":             {hmac(publicPEM, "rsa"), auth.Malformed},
		"HS256 with the key's modulus":          {hmac(rsaKey().N.Bytes(), "rsa"), auth.Malformed},
		"HS256 with a key that it tells":        {hmac([]byte("a secret that the issuer should not have told"), "shared"), auth.Malformed},
		"another kid":                           {authtest.Key{ID: "else", Private: good.Private, Alg: jose.RS256}.Sign(t, i.Claims(nil)), auth.NewKey},
		"no kid, and several keys":              {authtest.Key{ID: "", Private: good.Private, Alg: jose.RS256}.Sign(t, i.Claims(nil)), auth.UnknownKey},
		"a key for something else":              {encryption.Sign(t, i.Claims(nil)), auth.NewKey},
		"the kid of a stranger's key":           {stranger.Sign(t, i.Claims(nil)), auth.Signature},
		"another algorithm than the key's":      {authtest.Key{ID: "pinned", Private: good.Private, Alg: jose.RS256}.Sign(t, i.Claims(nil)), auth.Signature},
		"a key in its header":                   {withOwnKey, auth.UnknownKey},
		"a header with another alg":             {header(`{"alg":"RS512","kid":"rsa"}`), auth.Signature},
		"a header with crit":                    {header(`{"alg":"RS256","kid":"rsa","crit":["b64"],"b64":false}`), auth.Signature},
		"another payload":                       {strings.Replace(whole, payload, base64.RawURLEncoding.EncodeToString(append(text, ' ')), 1), auth.Signature},
		"half a signature":                      {whole[:len(whole)-40], auth.Signature},
		"no signature":                          {whole[:strings.LastIndex(whole, ".")+1], auth.Signature},
		"a payload that is no JSON":             {good.SignText(t, "hello"), auth.Malformed},
		"a payload that is a list":              {good.SignText(t, "[1]"), auth.Malformed},
		"an issuer that is a number":            {signed(map[string]any{"iss": 5}), auth.Malformed},
		"no issuer":                             {signed(map[string]any{"iss": nil}), auth.OtherIssuer},
		"another issuer":                        {signed(map[string]any{"iss": "https://evil.example"}), auth.OtherIssuer},
		"the issuer with a slash":               {signed(map[string]any{"iss": i.URL + "/"}), auth.OtherIssuer},
		"another issuer of the file":            {good.Sign(t, other.Claims(map[string]any{"sub": "somebody"})), auth.NoRule},
		"the audience of another service":       {signed(map[string]any{"aud": "sigstore"}), auth.Audience},
		"an audience that begins like ours":     {signed(map[string]any{"aud": "leasectl.evil"}), auth.Audience},
		"no audience":                           {signed(map[string]any{"aud": nil}), auth.Audience},
		"an audience that is a number":          {signed(map[string]any{"aud": 7}), auth.Malformed},
		"another audience, and AUD":             {more(map[string]any{"aud": "sigstore"}, `"AUD":"leasectl"`), auth.Audience},
		"AUD alone":                             {more(map[string]any{"aud": nil}, `"AUD":"leasectl"`), auth.Audience},
		"another issuer, and ISS":               {more(map[string]any{"iss": "https://evil.example"}, fmt.Sprintf(`"ISS":%q`, i.URL)), auth.OtherIssuer},
		"another repository, and Repository":    {more(map[string]any{"repository": "evil/app"}, `"Repository":"acme/app"`), auth.NoRule},
		"an audience in a list in a list":       {signed(map[string]any{"aud": []any{[]string{"leasectl"}}}), auth.Malformed},
		"expired":                               {signed(map[string]any{"exp": now - 61}), auth.Expired},
		"expired long ago":                      {signed(map[string]any{"exp": 0}), auth.Expired},
		"no exp":                                {signed(map[string]any{"exp": nil}), auth.Malformed},
		"exp as a text":                         {signed(map[string]any{"exp": fmt.Sprint(now + 300)}), auth.Malformed},
		"exp as a list":                         {signed(map[string]any{"exp": []int64{now + 300}}), auth.Malformed},
		"exp beyond all time":                   {signed(map[string]any{"exp": 1e300}), auth.Malformed},
		"exp in the header only":                {header(fmt.Sprintf(`{"alg":"RS256","kid":"rsa","exp":%d}`, now+300)), auth.Signature},
		"exp in milliseconds, long ago":         {signed(map[string]any{"exp": (now - 300) / 1000}), auth.Expired},
		"nbf in two minutes":                    {signed(map[string]any{"nbf": now + 120}), auth.TooEarly},
		"nbf as a text":                         {signed(map[string]any{"nbf": "now"}), auth.Malformed},
		"iat in two minutes":                    {signed(map[string]any{"iat": now + 120}), auth.TooEarly},
		"iat as a list":                         {signed(map[string]any{"iat": []int64{now}}), auth.Malformed},
		"another repository":                    {signed(map[string]any{"repository": "evil/app"}), auth.NoRule},
		"a repository that ends like ours":      {signed(map[string]any{"repository": "evil/acme/app"}), auth.NoRule},
		"a repository that only begins like it": {signed(map[string]any{"repository": "acmeevil/app"}), auth.NoRule},
		"a repository in capitals":              {signed(map[string]any{"repository": "ACME/app"}), auth.NoRule},
		"no repository":                         {signed(map[string]any{"repository": nil}), auth.NoRule},
		"a repository that is a list":           {signed(map[string]any{"repository": []string{"acme/app"}}), auth.NoRule},
		"a repository that is a number":         {signed(map[string]any{"repository": 12}), auth.NoRule},
		"a repository that is an object":        {signed(map[string]any{"repository": map[string]string{"acme/": "app"}}), auth.NoRule},
		"a repository that is true":             {signed(map[string]any{"repository": true}), auth.NoRule},
		"a name with a line's end":              {signed(map[string]any{"repository": "acme/a\nb"}), auth.NoRule},
		"a name with the separator of issuers":  {signed(map[string]any{"repository": "acme/a\x1fhttps://x"}), auth.NoRule},
		"a name with the separator of owners":   {signed(map[string]any{"repository": "acme/a\x00b"}), auth.NoRule},
		"a name that is too long":               {signed(map[string]any{"repository": "acme/" + strings.Repeat("x", 600)}), auth.NoRule},
	} {
		if got := admit(t, g, c.token); got != string(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := admit(t, g, whole); got != "acme/app" {
		t.Errorf("the good token: %s", got)
	}
	if n := i.Fetched(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

func mustSum(t *testing.T, secret string) auth.Sum {
	t.Helper()
	sum, err := auth.SumOf(secret)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// The answer tells a stranger nothing, and somebody whom no rule matches which claims he had.
func TestWhatRefusalsTell(t *testing.T) {
	i := authtest.NewIssuer(t)
	k := authtest.NewKey(t, "k")
	i.Publish(k)
	g := open(t, auth.Config{Issuers: []auth.Issuer{trust(i)}})
	_, stranger := g.Admit(t.Context(), "Bearer "+k.Sign(t, i.Claims(map[string]any{"exp": 0})))
	if status, text := stranger.Status(); status != 401 || text != "a token that the server knows is needed" || !strings.Contains(stranger.Detail, "1970") || stranger.Issuer != i.URL {
		t.Errorf("expired: %d %s (%+v)", status, text, stranger)
	}
	_, known := g.Admit(t.Context(), "Bearer "+k.Sign(t, i.Claims(map[string]any{"repository": "evil/app", "z": "a\x1b[31m" + strings.Repeat("z", 5000)})))
	status, text := known.Status()
	if status != 403 || !strings.HasPrefix(text, "no rule for "+i.URL+" matches the token, which has repository=evil/app ") || strings.Contains(text, "\x1b") || len(text) > 1000 {
		t.Errorf("no rule: %d %s", status, text)
	}
}
