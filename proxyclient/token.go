package proxyclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// TokenSource gets tokens that end from whoever gives them to this job, and keeps the last one.
// It gets another one before the last has ended, without a pause for its callers, and when a proxy
// refuses the last. Clients may share it. It is safe for concurrent use.
type TokenSource struct {
	name  string
	fetch func(context.Context) (string, error)

	ctx      context.Context // of the fetches
	cancel   context.CancelFunc
	fetching sync.WaitGroup

	mu      sync.Mutex // guards what follows
	token   string     // empty: there was none yet
	renewAt Instant    // when to get another one; zero: only when this one is refused
	ends    Instant    // zero: not known
	tried   Instant    // when the last fetch began
	running *tokenFetch

	refused   string  // the last token that a proxy refused
	refusedAt Instant // the time of that
	refusals  int     // how many tokens were refused in a row
}

// tokenFetch is a fetch under way. token and err are set when done is closed.
type tokenFetch struct {
	name  string // of the source
	done  chan struct{}
	token string
	err   error
}

const (
	// tokenTime bounds one fetch of a token.
	tokenTime = 30 * time.Second
	// tokenPause is the least time between two fetches that no refusal asks for: a job that waits
	// for hours must not become a burden to whoever gives tokens.
	tokenPause = 5 * time.Second
	// refusedAtOnce is how many tokens may be refused in a row, and be replaced at once: one may have been
	// revoked, and its successor be too new. After each further one the pause is twice as long, up to
	// refusedPause, which also ends the row.
	refusedAtOnce = 2
	refusedPause  = 10 * time.Minute
	// clockSkew is how far the clock of an issuer may be ahead of ours.
	clockSkew = 2 * time.Minute
)

// NewTokenSource returns a source of tokens. The name says in messages where they come from. fetch
// gets a token; it may be called beside the calls that need one, and must end with its context. A call
// that needs the first token tries again after an error, unless that is [Hopeless].
func NewTokenSource(name string, fetch func(context.Context) (string, error)) *TokenSource {
	s := &TokenSource{name: name, fetch: fetch}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends the fetch under way, and waits for its end. Later ones fail.
func (s *TokenSource) Close() {
	s.mu.Lock()
	s.cancel() // no fetch begins from here on
	s.mu.Unlock()
	s.fetching.Wait()
}

// Token returns a token. It blocks while there is none that has not ended.
func (s *TokenSource) Token(ctx context.Context) (string, error) {
	s.mu.Lock()
	token := s.token
	good := token != "" && (s.ends.IsZero() || !over(s.ends))
	due := !good || !s.renewAt.IsZero() && over(s.renewAt)
	if !due || token != "" && s.running == nil && Now().Sub(s.tried) < tokenPause {
		s.mu.Unlock()
		return token, nil
	}
	f := s.begin()
	s.mu.Unlock()
	if good {
		return token, nil
	}
	fetched, err := f.wait(ctx)
	if err != nil && token != "" {
		return token, nil // its end by our clock is not its end by that of the proxy
	}
	return fetched, err
}

// refuse gets another token in place of one that the proxy refused. It reports whether there is
// another one.
func (s *TokenSource) refuse(ctx context.Context, sent string) (replaced bool, err error) {
	s.mu.Lock()
	if s.token != sent && s.token != "" {
		s.mu.Unlock()
		return true, nil
	}
	if s.running == nil && Now().Sub(s.tried) < s.noteRefusal(sent) {
		s.mu.Unlock()
		return false, nil
	}
	f := s.begin()
	s.mu.Unlock()
	token, err := f.wait(ctx)
	return err == nil && token != sent, err
}

// noteRefusal notes that a token was refused, and returns how long after the last fetch the next one may
// begin. The caller holds s.mu.
func (s *TokenSource) noteRefusal(sent string) (pause time.Duration) {
	now := Now()
	if now.Sub(s.refusedAt) > refusedPause {
		s.refusals = 0
	}
	if s.refusals == 0 || sent != s.refused {
		s.refusals++
	}
	s.refused, s.refusedAt = sent, now
	if s.refusals <= refusedAtOnce {
		return 0
	}
	return min(refusedPause, tokenPause<<min(s.refusals-refusedAtOnce-1, 10))
}

// begin returns the fetch under way, or begins one. The caller holds s.mu.
func (s *TokenSource) begin() *tokenFetch {
	if s.running != nil {
		return s.running
	}
	f := &tokenFetch{name: s.name, done: make(chan struct{})}
	if s.ctx.Err() != nil {
		f.err = fmt.Errorf("%s: it was closed", s.name)
		close(f.done)
		return f
	}
	s.running, s.tried = f, Now()
	s.fetching.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, tokenTime)
		defer cancel()
		begun := Now()
		token, err := s.fetch(ctx)
		token = strings.TrimSpace(token)
		switch {
		case err != nil:
		case token == "":
			err = errors.New("it gave no token")
		default:
			err = leaseapi.CheckToken(token)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		f.token, f.err = token, err
		if s.running = nil; err == nil {
			s.keep(token, begun)
		} else {
			f.err = &reworded{text: fmt.Sprintf("%s: %v", s.name, err), err: errors.Join(ErrNoTokenGiven, err)}
		}
		close(f.done)
	})
	return f
}

func (f *tokenFetch) wait(ctx context.Context) (string, error) {
	select {
	case <-f.done:
		return f.token, f.err
	case <-ctx.Done():
		cause := context.Cause(ctx)
		text := f.name + " gave no token in time"
		if !errors.Is(cause, context.DeadlineExceeded) {
			text = fmt.Sprintf("%s gave no token yet: %v", f.name, cause)
		}
		return "", &reworded{text: text, err: errors.Join(ErrNoTokenGiven, cause)}
	}
}

// keep makes token the one to show. The caller holds s.mu.
func (s *TokenSource) keep(token string, since Instant) {
	s.token, s.ends, s.renewAt = token, Instant{}, Instant{}
	if left, ends := timeLeft(token, time.Now()); ends {
		s.ends, s.renewAt = since.Add(left), since.Add(left*4/5)
	}
}

// tokenClaims are what a token says of itself, if it is a JSON Web Token (RFC 7519). A client
// believes that without a look at the signature: the token is its own.
type tokenClaims struct {
	Issuer  string  `json:"iss"`
	Subject string  `json:"sub"`
	Ends    float64 `json:"exp"`
	Issued  float64 `json:"iat"`
}

func claimsOf(token string) (c tokenClaims, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	return c, err == nil && json.Unmarshal(payload, &c) == nil
}

// timeLeft returns how long a token lasts from now on; false if it does not say. If our clock
// cannot be right, the token is taken for a new one.
func timeLeft(token string, now time.Time) (time.Duration, bool) {
	c, ok := claimsOf(token)
	if !ok || c.Ends <= 0 || c.Ends > math.MaxInt32*100 || c.Issued < 0 || c.Issued > c.Ends {
		return 0, false
	}
	ends, issued := time.Unix(int64(c.Ends), 0), time.Unix(int64(c.Issued), 0)
	if c.Issued > 0 && (now.After(ends) || now.Before(issued.Add(-clockSkew))) {
		return ends.Sub(issued), true
	}
	return max(0, ends.Sub(now)), true
}

// TokenIdentity returns a text that is the same for all tokens of one identity: the issuer and the
// subject of a JSON Web Token, and any other token itself.
func TokenIdentity(token string) string {
	if c, ok := claimsOf(token); ok && c.Issuer != "" && c.Subject != "" {
		return c.Issuer + " " + c.Subject
	}
	return token
}

// tokenFile is a file with a token that may be replaced at any time.
type tokenFile struct {
	path string // empty: there is none

	mu    sync.Mutex
	token string
	seen  fs.FileInfo // when the token was read; nil: not known
}

// opened notes that the file had a token just now.
func (f *tokenFile) opened(path, token string) {
	f.path, f.token = path, token
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		f.seen = info
	}
}

// current returns the token. It reads the file again if that was replaced or written since; a file
// without a token changes nothing, since it may be about to get one.
func (f *tokenFile) current() string {
	if f.path != "" {
		if info, err := os.Stat(f.path); err == nil && info.Mode().IsRegular() && f.changed(info) {
			f.read(info)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.token
}

func (f *tokenFile) changed(info fs.FileInfo) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen == nil || !os.SameFile(f.seen, info) || f.seen.Size() != info.Size() || !f.seen.ModTime().Equal(info.ModTime())
}

// read reads the token. info is from before: if the file changes meanwhile it is read again.
func (f *tokenFile) read(info fs.FileInfo) {
	text, err := readAgain(f.path, MaxToken) // without mu: the file may hang
	token := strings.TrimSpace(string(text))
	if err != nil || token == "" || leaseapi.CheckToken(token) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.token, f.seen = token, info
}

// refuse reads the file again, changed or not. It reports whether its token is another one than
// the proxy refused.
func (f *tokenFile) refuse(sent string) bool {
	if f.path == "" {
		return false
	}
	if info, err := os.Stat(f.path); err == nil {
		f.read(info)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.token != sent
}
