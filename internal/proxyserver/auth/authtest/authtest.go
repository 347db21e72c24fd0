// Package authtest is an issuer of tokens for tests: it signs what it is told to, replaces its keys,
// and misbehaves on demand.
package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is an issuer of tokens. It is an [http.Handler], and safe for concurrent use.
type Issuer struct {
	URL string

	mu       sync.Mutex
	keys     []jose.JSONWebKey
	fetched  int
	instead  http.HandlerFunc
	lastAuth string
}

// NewIssuer returns an issuer that serves on loopback until the test ends.
func NewIssuer(t testing.TB) *Issuer {
	i, stop := Serve()
	t.Cleanup(stop)
	return i
}

// Serve returns an issuer that serves on loopback until stop is called.
func Serve() (i *Issuer, stop func()) {
	i = new(Issuer)
	server := httptest.NewServer(i)
	i.URL = server.URL
	return i, server.Close
}

// ServeHTTP implements [http.Handler].
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys?policy=a"})
	case "/keys":
		i.fetched++
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: i.keys})
	default:
		http.NotFound(w, r)
	}
}

// Publish makes keys those of the issuer.
func (i *Issuer) Publish(keys ...Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = nil
	for _, k := range keys {
		i.keys = append(i.keys, k.Public())
	}
}

// PublishRaw adds keys to those of the issuer.
func (i *Issuer) PublishRaw(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, keys...)
}

// Answer makes the issuer answer all requests by h; nil: as an issuer should.
func (i *Issuer) Answer(h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.instead = h
}

// Fetched returns how often the keys were fetched.
func (i *Issuer) Fetched() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetched
}

// LastAuthorization returns the Authorization header of the last request.
func (i *Issuer) LastAuthorization() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.lastAuth
}

// Claims returns the claims of a good token that ends in five minutes, with changes. A nil value
// removes a claim.
func (i *Issuer) Claims(changes map[string]any) map[string]any {
	now := time.Now().Unix()
	all := map[string]any{
		"iss": i.URL, "aud": "leasectl", "sub": "repo:acme/app:ref:refs/heads/main", "repository": "acme/app",
		"iat": now, "nbf": now, "exp": now + 300,
	}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

// Key is a key to sign tokens with.
type Key struct {
	ID      string
	Private crypto.Signer
	Alg     jose.SignatureAlgorithm
}

// NewKey returns a new key of an elliptic curve.
func NewKey(t testing.TB, id string) Key {
	t.Helper()
	k, err := GenerateKey(id)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// GenerateKey is [NewKey] without a test.
func GenerateKey(id string) (Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return Key{id, private, jose.ES256}, err
}

// Public returns what an issuer publishes of the key.
func (k Key) Public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.Private.Public(), KeyID: k.ID, Use: "sig"}
}

// Sign returns a token with claims.
func (k Key) Sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	token, err := k.Token(claims)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Token is [Key.Sign] without a test.
func (k Key) Token(claims map[string]any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	return sign(jose.SigningKey{Algorithm: k.Alg, Key: jose.JSONWebKey{Key: k.Private, KeyID: k.ID}}, nil, string(payload))
}

// SignText returns a token with any payload.
func (k Key) SignText(t testing.TB, payload string) string {
	t.Helper()
	return Sign(t, jose.SigningKey{Algorithm: k.Alg, Key: jose.JSONWebKey{Key: k.Private, KeyID: k.ID}}, nil, payload)
}

// Sign returns a token that is signed in any way.
func Sign(t testing.TB, with jose.SigningKey, options *jose.SignerOptions, payload string) string {
	t.Helper()
	token, err := sign(with, options, payload)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func sign(with jose.SigningKey, options *jose.SignerOptions, payload string) (string, error) {
	signer, err := jose.NewSigner(with, options)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign([]byte(payload))
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
