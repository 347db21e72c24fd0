package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/leasectl/leasectl/leaseapi"
)

// Issuer vouches for the names of callers: it signs their tokens.
type Issuer struct {
	URL      string // as its tokens have it; see [CheckIssuer]
	Audience string // that its tokens must have been made for
	// CAFile is a PEM file with the authorities that vouch for URL; empty: the system's. TokenFile
	// has the token to show when its keys are asked for; empty: none.
	CAFile, TokenFile string
	Rules             []Rule // the first that matches counts
}

// source tells whether keys of two issuers are asked for in the same way.
func (i Issuer) source() [3]string { return [3]string{i.URL, i.CAFile, i.TokenFile} }

// algorithms are the signatures that count: none that a public key could make.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// leeway is how far the clocks of an issuer and of this server may be apart.
const leeway = time.Minute

// looksLikeJWT reports whether a token has the form of a JSON Web Token (RFC 7515, section 7.1).
func looksLikeJWT(token string) bool {
	return strings.Count(token, ".") == 2 && strings.HasPrefix(token, "eyJ") // {" in base64
}

// issuerOf returns what a token says of its issuer, unverified.
func issuerOf(token string) (string, error) {
	parts := strings.Split(token, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", err
	}
	var of struct {
		Issuer string `json:"iss"`
	}
	return of.Issuer, json.Unmarshal(payload, &of)
}

// trusted is an issuer whose tokens are accepted, and its keys.
type trusted struct {
	Issuer
	*keyring
}

// admit returns who shows a token of the issuer.
func (t *trusted) admit(ctx context.Context, token string, now time.Time) (Caller, *Refusal) {
	refuse := func(reason Reason, err error) (Caller, *Refusal) {
		return Caller{}, &Refusal{Reason: reason, Issuer: t.URL, Detail: err.Error()}
	}
	set := keySet{keyring: t.keyring}
	verifier := oidc.NewVerifier(t.URL, &set, &oidc.Config{
		SupportedSigningAlgs: names(algorithms),
		// Checked below, where the reason of a refusal is known.
		SkipClientIDCheck: true, SkipExpiryCheck: true,
	})
	verified, err := verifier.Verify(ctx, token)
	switch {
	case set.reason != "":
		return refuse(set.reason, set.err)
	case err != nil:
		return refuse(Malformed, err) // also an algorithm that does not count
	}
	// Package oidc takes AUD and ISS for aud and iss. A map does not.
	var all map[string]any
	if err := verified.Claims(&all); err != nil {
		return refuse(Malformed, err)
	}
	switch audience := audienceOf(all); {
	case all["iss"] != t.URL:
		return refuse(OtherIssuer, errors.New("its iss is not that of its issuer"))
	case !slices.Contains(audience, t.Audience):
		return refuse(Audience, fmt.Errorf("it is for %s, not for %s", leaseapi.Shorten(strings.Join(audience, ", ")), t.Audience))
	}
	until, reason, err := checkTimes(all, now)
	if err != nil {
		return refuse(reason, err)
	}
	texts := textClaims(all)
	name, rights, ok := texts.match(t.Rules)
	if !ok {
		return refuse(NoRule, fmt.Errorf("no rule for %s matches the token, which has %s", t.URL, texts.describe(t.Rules)))
	}
	return Caller{Name: name, Issuer: t.URL, Rights: rights, Until: until}, nil
}

// audienceOf returns for whom a token with these claims is: aud is a text, or a list of texts.
func audienceOf(all map[string]any) (audience []string) {
	if one, ok := all["aud"].(string); ok {
		return []string{one}
	}
	list, _ := all["aud"].([]any)
	for _, value := range list {
		if one, ok := value.(string); ok {
			audience = append(audience, one)
		}
	}
	return audience
}

func names(algorithms []jose.SignatureAlgorithm) (names []string) {
	for _, a := range algorithms {
		names = append(names, string(a))
	}
	return names
}

// keySet is a keyring as package oidc takes it, for one token. Package oidc drops the kind of an
// error, so it is kept here.
type keySet struct {
	*keyring
	reason Reason
	err    error
}

// VerifySignature implements [oidc.KeySet].
func (s *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := s.verify(ctx, token)
	switch {
	case err == nil:
	case errors.Is(err, errUnreachable), ctx.Err() != nil:
		s.reason, s.err = Unreachable, err
	case errors.Is(err, errNewKey):
		s.reason, s.err = NewKey, err
	case errors.Is(err, errManyWait):
		s.reason, s.err = ManyWait, err
	case errors.Is(err, errUnknownKey):
		s.reason, s.err = UnknownKey, err
	default:
		s.reason, s.err = Signature, err
	}
	return payload, err
}

func (s *keySet) verify(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, err
	}
	header := signed.Signatures[0].Header
	keys, err := s.find(ctx, header.KeyID)
	if err != nil {
		return nil, fmt.Errorf("%w (key %q)", err, header.KeyID)
	}
	for _, key := range keys {
		if key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, fmt.Errorf("key %q of the issuer did not sign it with %s", header.KeyID, header.Algorithm)
}

// checkTimes returns when a token with these claims ends. All times must be numbers (RFC 7519,
// section 2), and the end must be there.
func checkTimes(all map[string]any, now time.Time) (until time.Time, why Reason, err error) {
	times := make(map[string]time.Time)
	for _, claim := range []string{"exp", "nbf", "iat"} {
		value, there := all[claim]
		if !there {
			continue
		}
		seconds, ok := value.(float64)
		if !ok || math.Abs(seconds) > 1<<40 {
			return until, Malformed, fmt.Errorf("its %s is not a time", claim)
		}
		times[claim] = time.Unix(int64(seconds), 0)
	}
	until, ends := times["exp"]
	switch {
	case !ends:
		return until, Malformed, errors.New("it has no exp")
	case now.After(until.Add(leeway)):
		return until, Expired, fmt.Errorf("it ended at %s", until.UTC().Format(time.RFC3339))
	}
	for _, claim := range []string{"nbf", "iat"} {
		if begins, there := times[claim]; there && begins.After(now.Add(leeway)) {
			return until, TooEarly, fmt.Errorf("its %s is %s", claim, begins.UTC().Format(time.RFC3339))
		}
	}
	return until, "", nil
}
