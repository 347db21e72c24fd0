package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// gateway speaks to the members of etcd over their JSON gateway. It is safe for
// concurrent use.
type gateway struct {
	bases       []string // URLs of the members
	current     atomic.Int64
	http        http.Client
	credentials string // path of a file with user:password; empty: etcd asks for none
	readFile    func(file string) ([]byte, error)

	authenticating chan struct{} // a semaphore: one request at a time gets a new token

	mu    sync.Mutex
	token string // of the last authentication
}

// maxResponse is more bytes than any answer has: a page of the largest values, in base64.
const maxResponse = 1 << 30

func newGateway(a Address, secure *secure, credentials string, readFile func(string) ([]byte, error)) *gateway {
	g := &gateway{credentials: credentials, readFile: readFile, authenticating: make(chan struct{}, 1)}
	for _, host := range a.Hosts {
		g.bases = append(g.bases, a.scheme()+host)
	}
	// One request at a time on a connection, so that one that hangs does not hold up others.
	var onlyHTTP1 http.Protocols
	onlyHTTP1.SetHTTP1(true)
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTime}).DialContext,
		Protocols:           &onlyHTTP1,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
	}
	if secure != nil {
		transport.DialTLSContext = secure.dial
	}
	g.http.Transport = transport
	return g
}

// statusError is an answer of etcd with a status other than 200.
type statusError struct {
	status int
	failure
}

func (e *statusError) Error() string {
	text := e.Message
	if text == "" {
		text = e.failure.Error
	}
	if text == "" {
		text = http.StatusText(e.status)
	}
	return fmt.Sprintf("etcd answered %d: %s", e.status, text)
}

// refused reports whether err says that etcd did not carry a request out, and would refuse
// the same request again. A request that is [unauthenticated] may pass later, because users,
// tokens and the file of the credentials change.
func refused(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.Code == codeInvalid && !unauthenticated(err)
}

// noSpace reports whether err says that etcd takes no writes because its database has
// reached its quota.
func noSpace(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.Code == codeExhausted && strings.Contains(e.Message, "space")
}

// forbidden reports whether err says that our user of etcd may not do what it asked for.
func forbidden(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.Code == codeForbidden
}

// compacted reports whether err says that the history to compact is already dropped.
func compacted(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.Code == codeOutOfRange
}

// call sends one request to the member that answered last, and decodes the answer into out.
// After a failure the next call goes to the next member. After an error that is not
// [refused], etcd may have carried the request out, or may still do so.
func (g *gateway) call(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return g.send(ctx, path, body, out)
}

func (g *gateway) send(ctx context.Context, path string, body []byte, out any) error {
	n := g.current.Load()
	base := g.bases[int(n)%len(g.bases)]
	err := g.sendTo(ctx, base, path, body, out)
	if err != nil && !refused(err) {
		g.current.CompareAndSwap(n, n+1)
	}
	return err
}

// sendTo sends a request to one member. If etcd asks for a valid token, sendTo authenticates
// and sends the request once more.
func (g *gateway) sendTo(ctx context.Context, base, path string, body []byte, out any) error {
	token := g.lastToken()
	err := g.post(ctx, base, path, token, body, out)
	if g.credentials == "" || !unauthenticated(err) {
		return err
	}
	if token, err = g.authenticate(ctx, base, token); err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	return g.post(ctx, base, path, token, body, out)
}

// notAuthenticated are the messages with which etcd answers 400 with code 3 to a request without
// a token, to a JWT that is older than the last change of etcd's users, and to a wrong password.
var notAuthenticated = [...]string{"user name is empty", "revision of auth store is old", "authentication failed"}

// unauthenticated reports whether err says that a request had no valid token or password. For an
// expired token etcd answers 401 with code 16.
func unauthenticated(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && (e.Code == codeUnauthenticated ||
		e.Code == codeInvalid && slices.ContainsFunc(notAuthenticated[:], func(m string) bool { return strings.Contains(e.Message, m) }))
}

// asksForNobody reports whether err says that etcd no longer asks for passwords. Until version
// 3.5 etcd still refuses an old token then, but takes requests without a token.
func asksForNobody(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.Code == codePrecondition && strings.Contains(e.Message, "not enabled")
}

// authenticate returns a new token in place of old, which etcd refused, or "" if etcd no
// longer asks for a token. The credentials are read each time, so that they may change.
func (g *gateway) authenticate(ctx context.Context, base, old string) (string, error) {
	select {
	case g.authenticating <- struct{}{}:
		defer func() { <-g.authenticating }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if token := g.lastToken(); token != old { // another request was faster
		return token, nil
	}
	user, password, err := g.readCredentials()
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]string{"name": user, "password": password})
	if err != nil {
		return "", err
	}
	var reply struct {
		Token string `json:"token"`
	}
	if err := g.post(ctx, base, "/v3/auth/authenticate", "", body, &reply); err != nil && !asksForNobody(err) {
		return "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token = reply.Token
	return g.token, nil
}

func (g *gateway) lastToken() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.token
}

// readCredentials reads the file that holds user:password.
func (g *gateway) readCredentials() (user, password string, err error) {
	text, err := g.readFile(g.credentials)
	if err != nil {
		return "", "", err
	}
	user, password, ok := strings.Cut(strings.TrimSpace(string(text)), ":")
	if !ok || user == "" {
		return "", "", fmt.Errorf("%s: want one line with user:password", g.credentials)
	}
	return user, password, nil
}

// post makes one HTTP request.
func (g *gateway) post(ctx context.Context, base, path, token string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	resp, err := g.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", base, err)
	}
	if resp.StatusCode != http.StatusOK {
		e := &statusError{status: resp.StatusCode}
		_ = json.Unmarshal(text, &e.failure) // fails if a proxy on the way answered in another form
		return e
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the answer of %s is not as expected: %w", base, err)
	}
	return nil
}

func (g *gateway) close() { g.http.CloseIdleConnections() }
