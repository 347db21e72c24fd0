package auth_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/auth/authtest"
)

// answers is an issuer without a network, for tests in which time passes.
type answers struct {
	*authtest.Issuer
	hangs atomic.Bool // it answers nothing until its caller goes
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.hangs.Load() {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := &recorder{header: make(http.Header), status: http.StatusOK}
	a.Issuer.ServeHTTP(w, r)
	if w.err != nil {
		return nil, w.err
	}
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header, Request: r,
		Body: io.NopCloser(strings.NewReader(w.text.String())), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
}

type recorder struct {
	header http.Header
	status int
	text   strings.Builder
	err    error // instead of an answer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.text.Write(p) }

func (a *answers) open(t *testing.T, c auth.Config) *auth.Gate {
	g := auth.OpenThrough(a, c, silent)
	t.Cleanup(g.Close)
	return g
}

// down makes an issuer of answers refuse connections.
func down(w http.ResponseWriter, _ *http.Request) {
	w.(*recorder).err = errors.New("connection refused")
}

// inBubble runs a test in which time passes at once, with an issuer that needs no network.
func inBubble(t *testing.T, test func(t *testing.T, i *answers, k authtest.Key)) {
	k := authtest.NewKey(t, "first")
	synctest.Test(t, func(t *testing.T) {
		i := &answers{Issuer: &authtest.Issuer{URL: "https://issuer.example"}}
		i.Publish(k)
		test(t, i, k)
	})
}

// An issuer that is down costs only its own callers, who get 503 with its name. It may be down when
// the server starts, and is asked at most once in ten seconds.
func TestIssuerIsDown(t *testing.T) {
	inBubble(t, func(t *testing.T, i *answers, k authtest.Key) {
		i.Answer(down)
		g := i.open(t, auth.Config{Tokens: []auth.Token{{Name: "ci", Sum: mustSum(t, "a-secret-of-sixteen")}}, Issuers: []auth.Issuer{trust(i.Issuer)}})
		token := k.Sign(t, i.Claims(map[string]any{"exp": time.Now().Add(48 * time.Hour).Unix()}))
		for range 100 {
			_, refusal := g.Admit(t.Context(), "Bearer "+token)
			if refusal == nil {
				t.Fatal("let in by an issuer that is down")
			}
			if status, text := refusal.Status(); status != 503 || !strings.Contains(text, i.URL) || !strings.Contains(refusal.Detail, "connection refused") {
				t.Fatalf("%d %s (%v)", status, text, refusal)
			}
			if got := admit(t, g, "a-secret-of-sixteen"); got != "ci" {
				t.Errorf("a token of the file: %s", got)
			}
			time.Sleep(time.Second)
		}
		if s := g.Issuers()[0]; s.Failed != 10 || s.Fetched != 0 || s.Err == nil {
			t.Errorf("asked in 100 s: %+v", s)
		}
		i.Answer(nil)
		time.Sleep(10 * time.Second)
		if got := admit(t, g, token); got != "acme/app" {
			t.Errorf("when it is up: %s", got)
		}

		// Its keys are known now, and last a night.
		i.Answer(down)
		for range 11 {
			time.Sleep(time.Hour)
			if got := admit(t, g, token); got != "acme/app" {
				t.Fatalf("with known keys: %s", got)
			}
		}
		time.Sleep(2 * time.Hour)
		if got := admit(t, g, token); got != string(auth.Unreachable) {
			t.Errorf("with keys of yesterday: %s", got)
		}
		if got := admit(t, g, authtest.NewKey(t, "other").Sign(t, i.Claims(nil))); got != string(auth.Unreachable) {
			t.Errorf("with a key that may be new: %s", got)
		}
	})
}

// A new key is fetched when it is first seen, at most once in ten seconds. A key that was rotated
// out counts for ten minutes at most.
func TestKeysRotate(t *testing.T) {
	inBubble(t, func(t *testing.T, i *answers, first authtest.Key) {
		g := i.open(t, auth.Config{Issuers: []auth.Issuer{trust(i.Issuer)}})
		long := map[string]any{"exp": time.Now().Add(time.Hour).Unix()}
		old := first.Sign(t, i.Claims(long))
		if got := admit(t, g, old); got != "acme/app" {
			t.Fatal(got)
		}
		second := authtest.NewKey(t, "second")
		i.Publish(second)
		time.Sleep(10 * time.Second)
		if got := admit(t, g, second.Sign(t, i.Claims(nil))); got != "acme/app" {
			t.Errorf("with the new key: %s", got)
		}
		if got := admit(t, g, old); got != string(auth.UnknownKey) {
			t.Errorf("with the key that is gone: %s", got)
		}
		before := i.Fetched()
		for n := range 1000 {
			if got := admit(t, g, authtest.NewKey(t, fmt.Sprint("made-up-", n)).Sign(t, i.Claims(nil))); got != string(auth.UnknownKey) && got != string(auth.NewKey) {
				t.Fatalf("with a made-up key: %s", got)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := i.Fetched() - before; n > 10 {
			t.Errorf("1000 made-up keys in 100 s made it fetch %d times", n)
		}

		third := authtest.NewKey(t, "third")
		i.Publish(third)
		token := second.Sign(t, i.Claims(long))
		if got := admit(t, g, token); got != "acme/app" {
			t.Errorf("within ten minutes: %s", got)
		}
		time.Sleep(10 * time.Minute)
		if got := admit(t, g, token); got != string(auth.UnknownKey) {
			t.Errorf("ten minutes later: %s", got)
		}
	})
}

// Who shows a made-up key every ten seconds costs nobody a rotation: until the issuer is asked again
// the answer is 503, which clients repeat, and not 401, which ends them.
func TestMadeUpKeysHideNoRotation(t *testing.T) {
	inBubble(t, func(t *testing.T, i *answers, _ authtest.Key) {
		g := i.open(t, auth.Config{Issuers: []auth.Issuer{trust(i.Issuer)}})
		madeUp := authtest.NewKey(t, "made-up")
		for n := range 10 {
			if got := admit(t, g, madeUp.Sign(t, i.Claims(nil))); got != string(auth.UnknownKey) {
				t.Fatalf("with a made-up key: %s", got)
			}
			next := authtest.NewKey(t, fmt.Sprint("key-", n))
			i.Publish(next)
			time.Sleep(time.Second)
			for left := 9; ; left-- {
				_, refusal := g.Admit(t.Context(), "Bearer "+next.Sign(t, i.Claims(nil)))
				if refusal == nil {
					break
				}
				if status, text := refusal.Status(); status != 503 || !strings.Contains(text, i.URL) || left == 0 {
					t.Fatalf("a key that was published: %d %s (%v), %d tries left", status, text, refusal, left)
				}
				time.Sleep(time.Second)
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// Who has waited is checked by the rules of now, and by a token that was good when it came.
func TestAdmitAsOf(t *testing.T) {
	inBubble(t, func(t *testing.T, i *answers, k authtest.Key) {
		g := i.open(t, auth.Config{Issuers: []auth.Issuer{trust(i.Issuer)}})
		came := time.Now()
		token := k.Sign(t, i.Claims(map[string]any{"exp": came.Add(5 * time.Minute).Unix()}))
		if got := admit(t, g, token); got != "acme/app" {
			t.Fatal(got)
		}
		time.Sleep(time.Hour)
		if got := admit(t, g, token); got != string(auth.Expired) {
			t.Errorf("an hour later: %s", got)
		}
		if c, refusal := g.AdmitAsOf(t.Context(), "Bearer "+token, came); refusal != nil || c.Name != "acme/app" {
			t.Errorf("as of when it came: %+v, %v", c, refusal)
		}
		changed := trust(i.Issuer)
		changed.Rules = nil
		g.Set(&auth.Config{Issuers: []auth.Issuer{changed}})
		if _, refusal := g.AdmitAsOf(t.Context(), "Bearer "+token, came); refusal == nil || refusal.Reason != auth.NoRule {
			t.Errorf("without its rule: %v", refusal)
		}
	})
}

// At most 100 callers wait for the keys of an issuer, and none of another. More get 503 at once, and callers whose key is known are let in.
func TestFewWaitForKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, i *answers, k authtest.Key) {
		const other = "https://other.example"
		g := i.open(t, auth.Config{Issuers: []auth.Issuer{trust(i.Issuer), trust(&authtest.Issuer{URL: other})}})
		good := k.Sign(t, i.Claims(map[string]any{"exp": time.Now().Add(time.Hour).Unix()}))
		if got := admit(t, g, good); got != "acme/app" {
			t.Fatal(got)
		}
		time.Sleep(11 * time.Minute) // the keys are asked for again
		i.hangs.Store(true)
		madeUp := authtest.NewKey(t, "made-up").Sign(t, i.Claims(nil))
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { g.Admit(ctx, "Bearer "+madeUp) })
		}
		synctest.Wait()
		begin := time.Now()
		_, refusal := g.Admit(t.Context(), "Bearer "+madeUp)
		if status, text := refusal.Status(); status != 503 || refusal.Reason != auth.ManyWait {
			t.Errorf("one caller too many: %d %s", status, text)
		}
		if got := admit(t, g, good); got != "acme/app" {
			t.Errorf("with a known key: %s", got)
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("both took %v", took)
		}
		if got := admit(t, g, k.Sign(t, i.Claims(map[string]any{"iss": other}))); got != string(auth.Unreachable) {
			t.Errorf("of another issuer: %s", got)
		}
		stop()
		wg.Wait()
	})
}

// A secret that could be guessed lets nobody in, although its sum is in the file.
func TestShortSecretsMatchNothing(t *testing.T) {
	for _, secret := range []string{"", "short", "fifteen-letters"} {
		g := open(t, auth.Config{Tokens: []auth.Token{{Name: "ci", Sum: sha256.Sum256([]byte(secret))}}})
		if got := admit(t, g, secret); got != string(auth.UnknownToken) {
			t.Errorf("%q is let in: %s", secret, got)
		}
		if _, ok := g.Token(secret); ok {
			t.Errorf("%q begins a session", secret)
		}
	}
	if _, err := auth.ParseSum("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("the sum of nothing: %v", err)
	}
}

// An issuer that answers slowly delays each caller with a known key by two seconds at most, until its
// first fetch has failed.
func TestSlowIssuer(t *testing.T) {
	inBubble(t, func(t *testing.T, i *answers, k authtest.Key) {
		g := i.open(t, auth.Config{Issuers: []auth.Issuer{trust(i.Issuer)}})
		token := k.Sign(t, i.Claims(map[string]any{"exp": time.Now().Add(time.Hour).Unix()}))
		if got := admit(t, g, token); got != "acme/app" {
			t.Fatal(got)
		}
		i.hangs.Store(true)
		time.Sleep(11 * time.Minute)
		var slept time.Duration
		for range 100 {
			begun := time.Now()
			if got := admit(t, g, token); got != "acme/app" {
				t.Fatal(got)
			}
			slept += time.Since(begun)
			time.Sleep(time.Second)
		}
		// The first fetch is not known to fail until it has.
		if slept > 8*time.Second {
			t.Errorf("100 calls waited %v for an issuer that hangs", slept)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, refusal := g.Admit(ctx, "Bearer "+authtest.NewKey(t, "new").Sign(t, i.Claims(nil))); refusal == nil || refusal.Reason != auth.Unreachable {
			t.Errorf("a caller that went: %v", refusal)
		}
	})
}

// Whatever an issuer answers, nobody is let in by it, and nothing grows without a bound.
func TestIssuerAnswersWrongly(t *testing.T) {
	k := authtest.NewKey(t, "k")
	keys := func(n int) []byte {
		set := jose.JSONWebKeySet{}
		for range n {
			set.Keys = append(set.Keys, k.Public())
		}
		text, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "redirects, which is not followed"},
		"HTML":     {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>sign in</html>") }, "invalid character"},
		"an error": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "a stack trace", http.StatusTeapot) }, "418"},
		"no end": {func(w http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				fmt.Fprint(w, strings.Repeat(" ", 1024))
			}
		}, "longer than 262144 bytes"},
		"another issuer": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"issuer":"https://other.example","jwks_uri":"https://other.example/keys"}`)
		}, "did not match"},
		"keys elsewhere in clear text": {discovery("http://keys.example/"), "want https"},
		"keys in a file":               {discovery("file:///etc/passwd"), "want https"},
		"no place of keys":             {discovery(""), "want https"},
		"a thousand keys":              {keysOf(keys(1000)), "it has 1000 keys"},
		"no keys":                      {keysOf([]byte(`{"keys":[]}`)), "it has no key"},
		"a list":                       {keysOf([]byte(`[]`)), "no JSON Web Key Set"},
		"keys that are none":           {keysOf([]byte(`{"keys":[5,{"kty":"RSA"},{"kty":"oct","k":"AAAA","kid":"k"},{"kty":"EC","crv":"P-256","kid":"k","x":"AA","y":"AA"}]}`)), "it has no key"},
		"HTML instead of keys":         {keysOf([]byte(`<html>`)), "no JSON Web Key Set"},
	} {
		i := authtest.NewIssuer(t)
		i.Publish(k)
		i.Answer(c.answer)
		g := open(t, auth.Config{Issuers: []auth.Issuer{trust(i)}})
		_, refusal := g.Admit(t.Context(), "Bearer "+k.Sign(t, i.Claims(nil)))
		if refusal == nil || refusal.Reason != auth.Unreachable || !strings.Contains(refusal.Detail, c.want) || strings.Contains(refusal.Detail, "stack trace") {
			t.Errorf("%s: %v, want %s", name, refusal, c.want)
		}
	}
}

// An issuer that speaks https has no keys in clear text, not even on this machine.
func TestKeysInClearText(t *testing.T) {
	inBubble(t, func(t *testing.T, i *answers, k authtest.Key) {
		i.Answer(func(w http.ResponseWriter, _ *http.Request) {
			json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": "http://127.0.0.1/keys"})
		})
		g := i.open(t, auth.Config{Issuers: []auth.Issuer{trust(i.Issuer)}})
		_, refusal := g.Admit(t.Context(), "Bearer "+k.Sign(t, i.Claims(nil)))
		if refusal == nil || !strings.Contains(refusal.Detail, "is not https://, as the issuer is") {
			t.Errorf("%v", refusal)
		}
	})
}

// discovery answers that the keys are at an address.
func discovery(keys string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(map[string]string{"issuer": "http://" + r.Host, "jwks_uri": keys})
	}
}

// keysOf answers with a text instead of keys.
func keysOf(text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			w.Write(text)
			return
		}
		discovery("http://"+r.Host+"/keys")(w, r)
	}
}

// A reload keeps the keys of an issuer that stays, and takes the rules that are new.
func TestReloadKeepsKeys(t *testing.T) {
	i := authtest.NewIssuer(t)
	k := authtest.NewKey(t, "k")
	i.Publish(k)
	g := open(t, auth.Config{Issuers: []auth.Issuer{trust(i)}})
	token := k.Sign(t, i.Claims(nil))
	if got := admit(t, g, token); got != "acme/app" {
		t.Fatal(got)
	}
	i.Answer(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusBadGateway) })
	changed := trust(i)
	changed.Rules[0].Name = "other"
	g.Set(&auth.Config{Issuers: []auth.Issuer{changed}})
	if got := admit(t, g, token); got != "other" {
		t.Errorf("after a reload: %s", got)
	}
	g.Set(&auth.Config{})
	if got := admit(t, g, token); got != string(auth.UnknownToken) {
		t.Errorf("without the issuer: %s", got)
	}
	g.Set(nil)
	if c, refusal := g.Admit(t.Context(), ""); refusal != nil || c.Name != "" || g.Asks() {
		t.Errorf("a gate that asks for nothing: %+v, %v", c, refusal)
	}
}

// The token that an issuer wants is read from its file each time.
func TestTokenForTheIssuer(t *testing.T) {
	i := authtest.NewIssuer(t)
	k := authtest.NewKey(t, "k")
	i.Publish(k)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("the-first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	trusted := trust(i)
	trusted.TokenFile = file
	g := open(t, auth.Config{Issuers: []auth.Issuer{trusted}})
	if got := admit(t, g, k.Sign(t, i.Claims(nil))); got != "acme/app" || i.LastAuthorization() != "Bearer the-first" {
		t.Errorf("%s, after it was shown %q", got, i.LastAuthorization())
	}
	trusted.TokenFile = filepath.Join(t.TempDir(), "nothing")
	g.Set(&auth.Config{Issuers: []auth.Issuer{trusted}})
	if got := admit(t, g, k.Sign(t, i.Claims(nil))); got != string(auth.Unreachable) {
		t.Errorf("without the file: %s", got)
	}
}
