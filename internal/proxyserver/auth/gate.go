package auth

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasectl/leasectl/leaseapi"
)

// Config says who may ask. The zero Config lets nobody in; a nil one everybody, for everything.
type Config struct {
	Tokens  []Token
	Issuers []Issuer
}

// Reason is why a caller was not let in: a word of the log and the metrics.
type Reason string

// The reasons.
const (
	NoToken      Reason = "no-token"      // no bearer token was shown
	UnknownToken Reason = "unknown-token" // no token of the file, nor of the form of an issuer's
	Malformed    Reason = "malformed"     // also an algorithm that does not count, and a time that is none
	OtherIssuer  Reason = "other-issuer"  // the file does not name its issuer
	UnknownKey   Reason = "unknown-key"
	Signature    Reason = "signature"
	Audience     Reason = "audience" // made for others
	Expired      Reason = "expired"
	TooEarly     Reason = "too-early"
	NoRule       Reason = "no-rule"     // who it is is known: no rule matches
	Unreachable  Reason = "unreachable" // the issuer does not tell its keys
	NewKey       Reason = "new-key"     // the key may be newer than the issuer's last answer
	ManyWait     Reason = "many-wait"   // too many callers wait for the keys of issuers
)

// Refusal says why nobody was let in.
type Refusal struct {
	Reason Reason
	Issuer string // one of the configured ones; else empty
	Detail string // for the log
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s", r.Reason, r.Detail) }

// Status returns the HTTP status of the answer, and its text. A caller who is not known is told
// nothing of the reason.
func (r *Refusal) Status() (int, string) {
	switch r.Reason {
	case NoRule:
		return http.StatusForbidden, r.Detail
	case Unreachable:
		return http.StatusServiceUnavailable, fmt.Sprintf("the issuer %s does not answer, so its tokens cannot be checked: try again soon", r.Issuer)
	case NewKey:
		return http.StatusServiceUnavailable, fmt.Sprintf("the keys of the issuer %s were asked for a moment ago, without the key of this token: try again in %v", r.Issuer, fetchEvery)
	case ManyWait:
		return http.StatusServiceUnavailable, fmt.Sprintf("too many callers wait for the keys of the issuer %s: try again soon", r.Issuer)
	}
	return http.StatusUnauthorized, "a token that the server knows is needed"
}

// Gate lets callers in. Open one with [Open]. It is safe for concurrent use.
type Gate struct {
	log       *slog.Logger
	transport http.RoundTripper // to issuers; nil: the network
	state     atomic.Pointer[state]

	setting sync.Mutex // held by Set

	ctx      context.Context // of the fetches
	closing  sync.Mutex      // guards cancel, and what it means for fetching
	cancel   context.CancelFunc
	fetching sync.WaitGroup
}

// state is what a gate knows at a time.
type state struct {
	since   time.Time
	open    bool // everybody may ask
	tokens  []Token
	issuers map[string]*trusted // by URL
}

// Open returns a gate that lets in whom c says. The caller must close it. The log gets a line when
// an issuer stops answering, and when it answers again.
func Open(c *Config, log *slog.Logger) *Gate {
	g := &Gate{log: log}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.state.Store(&state{})
	g.Set(c)
	return g
}

// Since returns since when g lets in whom it does now.
func (g *Gate) Since() time.Time { return g.state.Load().since }

// Close ends the fetches under way and waits for them. Later ones fail.
func (g *Gate) Close() {
	g.closing.Lock()
	g.cancel()
	g.closing.Unlock()
	g.fetching.Wait()
}

// spawn runs f, a fetch, beside the caller.
func (g *Gate) spawn(f func(context.Context)) {
	g.closing.Lock()
	defer g.closing.Unlock()
	if g.ctx.Err() != nil { // Close may be waiting
		go f(g.ctx) // which fails at once
		return
	}
	g.fetching.Go(func() { f(g.ctx) })
}

// Set replaces whom g lets in, from the next request on. Keys that are known stay known.
func (g *Gate) Set(c *Config) {
	g.setting.Lock()
	defer g.setting.Unlock()
	old := g.state.Load()
	if c == nil {
		g.state.Store(&state{since: time.Now(), open: true})
		return
	}
	next := &state{since: time.Now(), tokens: c.Tokens, issuers: make(map[string]*trusted)}
	g.logRenamed(old, c)
	for _, i := range c.Issuers {
		was, known := old.issuers[i.URL]
		if !known || was.source() != i.source() {
			was = &trusted{keyring: g.newKeyring(i)}
		}
		next.issuers[i.URL] = &trusted{Issuer: i, keyring: was.keyring}
	}
	g.state.Store(next)
}

// logRenamed logs which callers have another name from now on: they are new callers.
func (g *Gate) logRenamed(old *state, c *Config) {
	const text = "another name makes new callers: what was taken under the old one stays that one's"
	for _, was := range old.tokens {
		for _, is := range c.Tokens {
			if is.Sum == was.Sum && is.Name != was.Name {
				g.log.Warn(text, "token", is.Name, "was", was.Name)
			}
		}
	}
	for _, i := range c.Issuers {
		was, known := old.issuers[i.URL]
		if !known {
			continue
		}
		for _, r := range i.Rules {
			at := slices.IndexFunc(was.Rules, func(other Rule) bool { return maps.Equal(other.Claims, r.Claims) })
			if at >= 0 && was.Rules[at].Name != r.Name {
				g.log.Warn(text, "issuer", i.URL, "name", string(r.Name), "was", string(was.Rules[at].Name))
			}
		}
	}
}

func (g *Gate) newKeyring(i Issuer) *keyring {
	answers := true
	return &keyring{
		fetch: func(ctx context.Context) ([]jose.JSONWebKey, error) {
			keys, err := i.fetchKeys(ctx, g.transport)
			switch {
			case ctx.Err() != nil: // the gate closes
			case err != nil && answers:
				g.log.Warn("issuer does not answer", "issuer", i.URL, "error", err)
			case err == nil && !answers:
				g.log.Info("issuer answers again", "issuer", i.URL)
			}
			answers = err == nil
			return keys, err
		},
		spawn: g.spawn,
		waits: make(chan struct{}, mostWaits),
	}
}

// Asks reports whether callers must show a token.
func (g *Gate) Asks() bool { return !g.state.Load().open }

// Admit returns who shows the value of an Authorization header (RFC 6750, section 2.1); the zero
// Caller if g lets everybody in. It blocks while keys of an issuer are fetched, for some seconds at
// most.
func (g *Gate) Admit(ctx context.Context, authorization string) (Caller, *Refusal) {
	return g.AdmitAsOf(ctx, authorization, time.Now())
}

// AdmitAsOf is Admit by the tokens, issuers and rules of now, for somebody who came at an earlier
// time and has waited since: a token that was good for that time is good.
func (g *Gate) AdmitAsOf(ctx context.Context, authorization string, came time.Time) (Caller, *Refusal) {
	s := g.state.Load()
	if s.open {
		return Caller{}, nil
	}
	scheme, shown, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return Caller{}, &Refusal{Reason: NoToken, Detail: "no bearer token was shown"}
	}
	shown = strings.TrimSpace(shown)
	if t, ok := find(s.tokens, shown); ok {
		return t.Caller(), nil
	}
	if len(s.issuers) == 0 || !looksLikeJWT(shown) {
		return Caller{}, &Refusal{Reason: UnknownToken, Detail: "it is no token of the file"}
	}
	issuer, err := issuerOf(shown)
	if err != nil {
		return Caller{}, &Refusal{Reason: Malformed, Detail: err.Error()}
	}
	t, ok := s.issuers[issuer]
	if !ok {
		return Caller{}, &Refusal{Reason: OtherIssuer, Detail: "its issuer is " + leaseapi.Shorten(issuer)}
	}
	return t.admit(ctx, shown, came)
}

// Token returns the token of the file with a secret. Sessions of browsers begin with one.
func (g *Gate) Token(secret string) (Token, bool) { return find(g.state.Load().tokens, secret) }

// TokenOf returns the token of the file with a sum; false if it was removed.
func (g *Gate) TokenOf(sum Sum) (Token, bool) {
	for _, t := range g.state.Load().tokens {
		if t.Sum == sum {
			return t, true
		}
	}
	return Token{}, false
}

// IssuerStatus is how an issuer answers.
type IssuerStatus struct {
	URL             string
	Fetched, Failed uint64 // fetches of its keys
	Err             error  // of the last fetch; nil: it had none, or there was none
}

// Issuers returns how the issuers answer, in the order of their URLs.
func (g *Gate) Issuers() []IssuerStatus {
	issuers := g.state.Load().issuers
	all := make([]IssuerStatus, 0, len(issuers))
	for _, url := range slices.Sorted(maps.Keys(issuers)) {
		k := issuers[url].keyring
		k.mu.Lock()
		all = append(all, IssuerStatus{URL: url, Fetched: k.fetched, Failed: k.failed, Err: k.err})
		k.mu.Unlock()
	}
	return all
}
