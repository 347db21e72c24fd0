package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"
)

// issuer stands for a CI system that signs tokens for its jobs, as GitHub, GitLab and Kubernetes
// do: RFC 7519, signed with ES256, and OpenID Connect Discovery.
type issuer struct {
	*httptest.Server
	key    *ecdsa.PrivateKey
	wants  string // the token that the issuer wants to see, as Kubernetes does; empty: none
	signed int    // how many tokens
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

// runnerSecret is what GitHub's runner wants to see before it gives a token.
const runnerSecret = "the-secret-of-this-run"

// ServeHTTP implements [http.Handler]. /runner is the endpoint of GitHub's runner.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	shown := r.Header.Get("Authorization")
	switch {
	case r.URL.Path == "/runner" && shown == "Bearer "+runnerSecret:
		token := i.sign(r.URL.Query().Get("audience"), map[string]any{"sub": "repo:acme/app:ref:refs/heads/main", "repository": "acme/app", "repository_owner_id": "65", "ref": "refs/heads/main"})
		fmt.Fprintf(w, `{"count":%d,"value":%q}`, len(token), token)
	case i.wants != "" && shown != "Bearer "+i.wants:
		http.Error(w, `{"kind":"Status","code":403}`, http.StatusForbidden)
	case r.URL.Path == "/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/openid/v1/jwks"})
	case r.URL.Path == "/openid/v1/jwks":
		json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]string{
			"kty": "EC", "crv": "P-256", "use": "sig", "kid": "k1", "x": base64url(fixed(i.key.X)), "y": base64url(fixed(i.key.Y)),
		}}})
	default:
		http.NotFound(w, r)
	}
}

// sign returns a token that lasts for five minutes.
func (i *issuer) sign(audience string, claims map[string]any) string {
	now := time.Now().Unix()
	claims["iss"], claims["aud"], claims["iat"], claims["nbf"], claims["exp"] = i.URL, []string{audience}, now, now, now+300
	i.signed++
	claims["jti"] = fmt.Sprint(i.signed)
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	text := base64url([]byte(`{"alg":"ES256","typ":"JWT","kid":"k1"}`)) + "." + base64url(payload)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	if err != nil {
		panic(err)
	}
	return text + "." + base64url(append(fixed(r), fixed(s)...))
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// fixed returns a number in 32 bytes.
func fixed(n *big.Int) []byte { return n.FillBytes(make([]byte, 32)) }

// rule is a rule for the issuer, in a file for --auth.
func (i *issuer) auth(t *testing.T, rule string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "auth.yaml"), fmt.Sprintf("issuers:\n- issuer: %s\n  audience: leasectl\n  rules:\n  - %s\n", i.URL, rule))
}
