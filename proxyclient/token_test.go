package proxyclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// jwt returns a token with claims, which nobody signed.
func jwt(claims map[string]any) string {
	text := func(v any) string {
		t, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(t)
	}
	return text(map[string]string{"alg": "RS256"}) + "." + text(claims) + ".c2ln"
}

// minting is a giver of tokens that last for a while.
type minting struct {
	lasts  time.Duration
	takes  time.Duration // to give one
	ahead  time.Duration // of its clock
	fails  atomic.Bool
	minted atomic.Int64
}

func (m *minting) fetch(ctx context.Context) (string, error) {
	if err := Sleep(ctx, m.takes); err != nil {
		return "", err
	}
	n := m.minted.Add(1)
	if m.fails.Load() {
		return "", errors.New("no permission")
	}
	now := time.Now().Add(m.ahead)
	return jwt(map[string]any{"n": n, "iat": now.Unix(), "exp": now.Add(m.lasts).Unix()}) + "\n", nil
}

// lasts reports whether a token has not ended by the giver's clock.
func (m *minting) good(token string) bool {
	c, _ := claimsOf(token)
	return time.Unix(int64(c.Ends), 0).After(time.Now().Add(m.ahead))
}

// A token is replaced before it ends, however the clocks of this machine and of the giver differ,
// and no caller waits for that.
func TestTokenIsRenewed(t *testing.T) {
	for _, ahead := range []time.Duration{0, 30 * time.Second, -30 * time.Second, time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			m := &minting{lasts: 5 * time.Minute, takes: 3 * time.Second, ahead: ahead}
			s := NewTokenSource("test", m.fetch)
			for i := range 4 * 60 * 6 { // six hours
				begun := time.Now()
				token, err := s.Token(t.Context())
				if err != nil || !m.good(token) || strings.HasSuffix(token, "\n") {
					t.Fatalf("%v ahead, after %d: %q, %v", ahead, i, token, err)
				}
				if took := time.Since(begun); i > 0 && took > 0 {
					t.Fatalf("%v ahead, after %d: waited %v", ahead, i, took)
				}
				time.Sleep(15 * time.Second)
			}
			if n := m.minted.Load(); n < 72 || n > 110 {
				t.Errorf("%v ahead: %d tokens of five minutes in six hours", ahead, n)
			}
			s.fetching.Wait()
		})
	}
}

// While none can be had the old token goes on, also beyond its end: the proxy decides. The giver is
// not asked more often than every five seconds.
func TestTokenCannotBeRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &minting{lasts: 5 * time.Minute}
		s := NewTokenSource("--token-from x", m.fetch)
		first, err := s.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m.fails.Store(true)
		for range 600 {
			if token, err := s.Token(t.Context()); token != first || err != nil {
				t.Fatalf("%q, %v", token, err)
			}
			time.Sleep(time.Second)
		}
		if n := m.minted.Load(); n > 1+(600-240)/5 {
			t.Errorf("asked %d times", n)
		}
		if replaced, err := s.refuse(t.Context(), first); replaced || err == nil || err.Error() != "--token-from x: no permission" {
			t.Errorf("refused: %v, %v", replaced, err)
		}
		m.fails.Store(false)
		if replaced, err := s.refuse(t.Context(), first); !replaced || err != nil {
			t.Errorf("refused: %v, %v", replaced, err)
		}
		second, _ := s.Token(t.Context())
		if replaced, err := s.refuse(t.Context(), first); !replaced || err != nil || second == first {
			t.Errorf("a token that is replaced already: %v, %v", replaced, err)
		}
	})
	s := NewTokenSource("--token-from x", func(context.Context) (string, error) { return " \n", nil })
	if _, err := s.Token(t.Context()); err == nil || err.Error() != "--token-from x: it gave no token" {
		t.Error(err)
	}
	s = NewTokenSource("--token-from x", func(context.Context) (string, error) { return "two words", nil })
	if _, err := s.Token(t.Context()); err == nil || strings.Contains(err.Error(), "two words") {
		t.Error(err)
	}
}

// A refused token is replaced at once, and the call made again: in the middle of an exec, too. A
// giver that fails meanwhile is asked again, as a proxy is that answers with errors.
func TestRefusedTokenOfASource(t *testing.T) {
	var wanted atomic.Int64
	wanted.Store(1)
	c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != fmt.Sprintf("Bearer token-%d", wanted.Load()) {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(leaseapi.RenewReply{TTL: leaseapi.Duration(time.Minute), RenewEvery: leaseapi.Duration(20 * time.Second)})
	}))
	var calls, failures atomic.Int64
	c.from = NewTokenSource("--token-from x", func(context.Context) (string, error) {
		calls.Add(1)
		if failures.Add(-1) >= 0 {
			return "", errors.New("busy")
		}
		return fmt.Sprintf("token-%d", wanted.Load()), nil
	})
	renew := func() error {
		_, err := c.Renew(t.Context(), []leaseapi.Lease{{Name: "a", Generation: 1}}, 0)
		return err
	}
	if err := renew(); err != nil {
		t.Fatal(err)
	}
	wanted.Store(2)
	if err := renew(); err != nil || calls.Load() != 2 {
		t.Errorf("after the token was revoked: %v, %d calls", err, calls.Load())
	}
	wanted.Store(3)
	failures.Store(2)
	if err := renew(); err != nil || calls.Load() != 5 {
		t.Errorf("while the giver is busy: %v, %d calls", err, calls.Load())
	}
	// The same token again is of no use.
	c.from = NewTokenSource("--token-from x", func(context.Context) (string, error) { return "never", nil })
	if err := renew(); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "the token of --token-from x") {
		t.Errorf("a token that is refused: %v", err)
	}
}

// A proxy that refuses every token does not make a job that holds a lease for hours a burden to whoever
// gives tokens.
func TestEveryTokenIsRefused(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		newMachine(t)
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no", http.StatusUnauthorized)
		}))
		var calls int
		c.from = NewTokenSource("--token-from x", func(context.Context) (string, error) {
			calls++
			return fmt.Sprintf("token-%d", calls), nil
		})
		defer c.from.Close()
		beat := Heartbeat{Client: c, Leases: []leaseapi.Lease{{Name: "a", Generation: 1}}, Deadline: Now().Add(4 * time.Hour)}
		if err := beat.Run(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("after four hours: %v", err)
		}
		if calls < 5 || calls > 100 {
			t.Errorf("%d tokens were fetched in four hours", calls)
		}
	})
}

// A projected token is replaced by a swap of a directory's link, and read before it is needed.
func TestProjectedToken(t *testing.T) {
	dir := t.TempDir()
	project := func(name, token string) {
		t.Helper()
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(os.Mkdir(filepath.Join(dir, name), 0o700))
		must(os.WriteFile(filepath.Join(dir, name, "token"), []byte(token), 0o600))
		must(os.Symlink(name, filepath.Join(dir, "..new")))
		must(os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
	}
	project("..1", "token-of-10-bytes-1")
	if err := os.Symlink(filepath.Join("..data", "token"), filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	var f tokenFile
	f.opened(filepath.Join(dir, "token"), "token-of-10-bytes-1")
	for n := range 5 {
		want := fmt.Sprintf("token-of-10-bytes-%d", n+1)
		if got := f.current(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		project(fmt.Sprintf("..%d", n+2), fmt.Sprintf("token-of-10-bytes-%d", n+2))
	}
	// A file that has no token yet, or is gone, changes nothing.
	project("..empty", "")
	if got := f.current(); got != "token-of-10-bytes-5" {
		t.Errorf("empty: %q", got)
	}
	if err := os.Remove(filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	if got := f.current(); got != "token-of-10-bytes-5" {
		t.Errorf("gone: %q", got)
	}
}

func TestTokenIdentity(t *testing.T) {
	a := jwt(map[string]any{"iss": "https://i", "sub": "me", "exp": 1})
	b := jwt(map[string]any{"iss": "https://i", "sub": "me", "exp": 2})
	c := jwt(map[string]any{"iss": "https://i", "sub": "you", "exp": 2})
	if TokenIdentity(a) != TokenIdentity(b) || TokenIdentity(b) == TokenIdentity(c) || TokenIdentity("x.y.z") != "x.y.z" || TokenIdentity("secret") != "secret" || TokenIdentity("") != "" {
		t.Error("identities are mixed up")
	}
	for _, claims := range []map[string]any{{}, {"exp": "soon"}, {"exp": -5}, {"exp": 1e40}, {"exp": []int{1}}, {"exp": 10, "iat": 20}} {
		if left, ok := timeLeft(jwt(claims), time.Unix(5, 0)); ok {
			t.Errorf("%v lasts %v", claims, left)
		}
	}
}

// A wait of three hours and a heartbeat of three hours outlive many tokens of five minutes: no
// request shows one that has ended, and no slice of the wait is late because of a new one.
func TestHoursOfTokens(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		newMachine(t)
		m := &minting{lasts: 5 * time.Minute, takes: 4 * time.Second}
		s := newOurs(t)
		refused, last := 0, time.Now()
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !m.good(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
				refused++
				http.Error(w, "no", http.StatusUnauthorized)
				return
			}
			if late := time.Since(last); r.URL.Path == leaseapi.PathAcquire && late > leaseapi.SliceGap && refused == 0 {
				t.Errorf("a slice began %v after the last had ended", late)
			}
			s.ServeHTTP(w, r)
			last = time.Now()
		}))
		c.from = NewTokenSource("test", m.fetch)
		s.freeAfter(3*time.Hour, "a")
		if _, err := c.from.Token(t.Context()); err != nil { // whose four seconds are no gap
			t.Fatal(err)
		}
		last = time.Now()
		g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, RequestID: "id", TTL: 5 * time.Minute, Wait: 4 * time.Hour})
		want(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		h := Heartbeat{Client: c, Leases: g.Leases, Deadline: g.Deadline()}
		if err := h.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the heartbeat ended: %v", err)
		}
		if n := m.minted.Load(); refused > 0 || n < 60 || n > 110 {
			t.Errorf("%d tokens in six hours, %d requests refused", n, refused)
		}
		c.from.fetching.Wait()
	})
}

// A giver that hangs is named by the calls that wait for it, not taken for a proxy that does not answer; and
// it is told to end.
func TestTokenThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		s := NewTokenSource("the giver", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			ended = true
			return "", context.Cause(ctx)
		})
		c, err := New(Options{URL: "http://127.0.0.1:1", TokenFrom: s})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = c.Whoami(ctx)
		if err == nil || err.Error() != "whoami: the giver gave no token in time" || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnreachable) {
			t.Errorf("%v", err)
		}
		s.Close()
		if !ended {
			t.Error("the giver goes on")
		}
		if _, err := s.Token(t.Context()); err == nil {
			t.Error("a closed source gives a token")
		}
	})
}

// A giver that fails before there is a first token is asked again, like a proxy that cannot be reached.
// What it says in the end is no fault of the proxy.
func TestFirstToken(t *testing.T) {
	from := func(t *testing.T, c *Client, works time.Duration, err error) (calls *int) {
		calls = new(int)
		begun := time.Now()
		c.from = NewTokenSource("--token-from x", func(context.Context) (string, error) {
			if *calls++; time.Since(begun) < works {
				return "", err
			}
			return "token", nil
		})
		t.Cleanup(c.from.Close)
		return calls
	}
	busy := errors.New("busy")
	bubble(t, "it passes", func(t *testing.T) {
		c, _ := serve(t, newOurs(t, "a", "b"))
		calls := from(t, c, 20*time.Second, busy)
		var told []string
		r := hour
		r.OnTrouble = func(err error, _ time.Time) { told = append(told, fmt.Sprint(err)) }
		_, err := c.Acquire(t.Context(), r)
		want(t, err)
		if *calls != 5 || len(told) != 5 || told[0] != "--token-from x: busy" || told[4] != "<nil>" {
			t.Errorf("%d calls, told %q", *calls, told)
		}
	})
	bubble(t, "it lasts", func(t *testing.T) {
		c, m := serve(t, newOurs(t, "a"), badGateway)
		begun := time.Now()
		from(t, c, time.Hour, busy)
		_, err := c.Acquire(t.Context(), hour)
		want(t, err, ErrNoTokenGiven)
		if took := time.Since(begun); took != maxRefused || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnconfirmed) || m.dialled() > 0 {
			t.Errorf("after %s: %v; connected %d times", took, err, m.dialled())
		}
	})
	bubble(t, "the wait is shorter", func(t *testing.T) {
		c, _ := serve(t, newOurs(t, "a"))
		begun := time.Now()
		from(t, c, time.Hour, busy)
		r := hour
		r.Wait = 0
		_, err := c.Acquire(t.Context(), r)
		want(t, err, ErrNoTokenGiven)
		if took := time.Since(begun); took != 0 {
			t.Errorf("after %s: %v", took, err)
		}
	})
	bubble(t, "it is hopeless", func(t *testing.T) {
		c, _ := serve(t, newOurs(t, "a"))
		calls := from(t, c, time.Hour, Hopeless(busy))
		_, err := c.Acquire(t.Context(), hour)
		want(t, err, ErrNoTokenGiven)
		if *calls != 1 || err.Error() != "acquire: --token-from x: busy" {
			t.Errorf("%d calls: %v", *calls, err)
		}
	})
	bubble(t, "of a release", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s)
		from(t, c, 2*time.Minute, busy)
		_, err := c.Release(t.Context(), leaseapi.ReleaseRequest{Leases: leases})
		want(t, err)
		if len(s.released) != 1 {
			t.Errorf("released %v", s.released)
		}
	})
}
