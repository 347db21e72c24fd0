package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasectl/leasectl/proxyserver/auth"
)

// issuer is an issuer of tokens on loopback, whose keys can be replaced and which can misbehave.
type issuer struct {
	t   *testing.T
	url string

	mu       sync.Mutex
	keys     []jose.JSONWebKey // public ones
	fetches  int               // of the keys
	instead  http.HandlerFunc  // answers all requests if not nil
	lastAuth string            // the Authorization header of the last request
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t}
	server := httptest.NewServer(i)
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lastAuth = r.Header.Get("Authorization")
	if i.instead != nil {
		i.instead(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys"})
	case "/keys":
		i.fetches++
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: i.keys})
	default:
		http.NotFound(w, r)
	}
}

// set changes the issuer while it may be asked.
func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

func (i *issuer) fetched() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// key is a key that the issuer signs with.
type key struct {
	id      string
	private crypto.Signer
	alg     jose.SignatureAlgorithm
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func ecKey(t *testing.T, id string) key {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key{id, k, jose.ES256}
}

func (k key) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.id, Use: "sig"}
}

// publish makes keys those of the issuer.
func (i *issuer) publish(keys ...key) {
	i.set(func() {
		i.keys = nil
		for _, k := range keys {
			i.keys = append(i.keys, k.public())
		}
	})
}

// claims returns those of a good token, with changes; a nil value removes a claim.
func (i *issuer) claims(changes map[string]any) map[string]any {
	now := time.Now().Unix()
	all := map[string]any{
		"iss": i.url, "aud": "leasectl", "sub": "repo:acme/app:ref:refs/heads/main", "repository": "acme/app",
		"iat": now, "nbf": now, "exp": now + 300,
	}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// sign returns a token with claims.
func (k key) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return k.signText(t, string(payload))
}

func (k key) signText(t *testing.T, payload string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.alg, Key: jose.JSONWebKey{Key: k.private, KeyID: k.id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// forge returns a token with any header, payload and signature.
func forge(header, payload, signature string) string {
	text := base64.RawURLEncoding.EncodeToString
	return text([]byte(header)) + "." + text([]byte(payload)) + "." + text([]byte(signature))
}

// trust returns what a server's file says that trusts the issuer.
func (i *issuer) trust() auth.Issuer {
	return auth.Issuer{URL: i.url, Audience: "leasectl", Rules: []auth.Rule{
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
	i := newIssuer(t)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []key{{"rsa", rsaKey(), jose.RS256}, {"pss", rsaKey(), jose.PS384}, ecKey(t, "ec"), {"ed", edKey, jose.EdDSA}}
	i.publish(kinds...)
	g := open(t, auth.Config{Issuers: []auth.Issuer{i.trust()}})
	for _, k := range kinds {
		c, refusal := g.Admit(t.Context(), "bearer "+k.sign(t, i.claims(nil)))
		if refusal != nil || c.Name != "acme/app" || c.Issuer != i.url || c.MaxPriority != 50 || !c.MayUse("install") || c.MayUse("other") {
			t.Errorf("%s: %+v, %v", k.alg, c, refusal)
		}
		if left := time.Until(c.Until); left < 4*time.Minute || left > 5*time.Minute {
			t.Errorf("%s ends in %v", k.alg, left)
		}
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
		if got := admit(t, g, kinds[0].sign(t, i.claims(changes))); got != "acme/app" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Each of these tokens is refused, for the reason that the log names and the answer does not.
func TestBadTokens(t *testing.T) {
	i := newIssuer(t)
	good, stranger, encryption := key{"rsa", rsaKey(), jose.RS256}, ecKey(t, "rsa"), ecKey(t, "enc")
	i.publish(good)
	i.set(func() {
		only := encryption.public()
		only.Use = "enc"
		shared := jose.JSONWebKey{Key: []byte("a secret that the issuer should not have told"), KeyID: "shared"}
		pinned := good.public()
		pinned.KeyID, pinned.Algorithm = "pinned", string(jose.RS512)
		i.keys = append(i.keys, only, shared, pinned)
	})
	other := newIssuer(t)
	other.publish(good)
	g := open(t, auth.Config{
		Tokens:  []auth.Token{{Name: "ci", Sum: mustSum(t, "a-secret-of-sixteen")}},
		Issuers: []auth.Issuer{i.trust(), {URL: other.url, Audience: "leasectl", Rules: []auth.Rule{{Claims: map[string]string{"sub": "nobody"}, Name: "x"}}}},
	})
	signed := func(changes map[string]any) string { return good.sign(t, i.claims(changes)) }
	now := time.Now().Unix()
	whole := signed(nil)
	payload := strings.Split(whole, ".")[1]
	text, err := json.Marshal(i.claims(nil))
	if err != nil {
		t.Fatal(err)
	}
	publicPEM, err := json.Marshal(good.public())
	if err != nil {
		t.Fatal(err)
	}
	hmac := func(secret []byte, id string) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: secret, KeyID: id}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(text)
		if err != nil {
			t.Fatal(err)
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	embedded, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: stranger.private}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	ofOwnKey, err := embedded.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	withOwnKey, err := ofOwnKey.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	header := func(text string) string {
		parts := strings.Split(whole, ".")
		return base64.RawURLEncoding.EncodeToString([]byte(text)) + "." + parts[1] + "." + parts[2]
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
		"another kid":                           {key{"else", good.private, jose.RS256}.sign(t, i.claims(nil)), auth.UnknownKey},
		"no kid, and several keys":              {key{"", good.private, jose.RS256}.sign(t, i.claims(nil)), auth.UnknownKey},
		"a key for something else":              {encryption.sign(t, i.claims(nil)), auth.UnknownKey},
		"the kid of a stranger's key":           {stranger.sign(t, i.claims(nil)), auth.Signature},
		"another algorithm than the key's":      {key{"pinned", good.private, jose.RS256}.sign(t, i.claims(nil)), auth.Signature},
		"a key in its header":                   {withOwnKey, auth.UnknownKey},
		"a header with another alg":             {header(`{"alg":"RS512","kid":"rsa"}`), auth.Signature},
		"a header with crit":                    {header(`{"alg":"RS256","kid":"rsa","crit":["b64"],"b64":false}`), auth.Signature},
		"another payload":                       {strings.Replace(whole, payload, base64.RawURLEncoding.EncodeToString(append(text, ' ')), 1), auth.Signature},
		"half a signature":                      {whole[:len(whole)-40], auth.Signature},
		"no signature":                          {whole[:strings.LastIndex(whole, ".")+1], auth.Signature},
		"a payload that is no JSON":             {good.signText(t, "hello"), auth.Malformed},
		"a payload that is a list":              {good.signText(t, "[1]"), auth.Malformed},
		"an issuer that is a number":            {signed(map[string]any{"iss": 5}), auth.Malformed},
		"no issuer":                             {signed(map[string]any{"iss": nil}), auth.OtherIssuer},
		"another issuer":                        {signed(map[string]any{"iss": "https://evil.example"}), auth.OtherIssuer},
		"the issuer with a slash":               {signed(map[string]any{"iss": i.url + "/"}), auth.OtherIssuer},
		"another issuer of the file":            {other.signWith(t, good, map[string]any{"sub": "somebody"}), auth.NoRule},
		"the audience of another service":       {signed(map[string]any{"aud": "sigstore"}), auth.Audience},
		"an audience that begins like ours":     {signed(map[string]any{"aud": "leasectl.evil"}), auth.Audience},
		"no audience":                           {signed(map[string]any{"aud": nil}), auth.Audience},
		"an audience that is a number":          {signed(map[string]any{"aud": 7}), auth.Malformed},
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
	if n := i.fetched(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

func (i *issuer) signWith(t *testing.T, k key, changes map[string]any) string {
	return k.sign(t, i.claims(changes))
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
	i := newIssuer(t)
	k := ecKey(t, "k")
	i.publish(k)
	g := open(t, auth.Config{Issuers: []auth.Issuer{i.trust()}})
	_, stranger := g.Admit(t.Context(), "Bearer "+k.sign(t, i.claims(map[string]any{"exp": 0})))
	if status, text := stranger.Status(); status != 401 || text != "a token that the server knows is needed" || !strings.Contains(stranger.Detail, "1970") || stranger.Issuer != i.url {
		t.Errorf("expired: %d %s (%+v)", status, text, stranger)
	}
	_, known := g.Admit(t.Context(), "Bearer "+k.sign(t, i.claims(map[string]any{"repository": "evil/app", "z": "a\x1b[31m" + strings.Repeat("z", 5000)})))
	status, text := known.Status()
	if status != 403 || !strings.HasPrefix(text, "no rule for "+i.url+" matches the token, which has repository=evil/app ") || strings.Contains(text, "\x1b") || len(text) > 1000 {
		t.Errorf("no rule: %d %s", status, text)
	}
}
