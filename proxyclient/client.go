package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Options say where the proxy is. Only URL must be set.
type Options struct {
	URL       string // as [ParseAddress] takes it
	Token     string // sent as a bearer token (RFC 6750) if not empty
	TokenFile string // of Token; read again when it changes, and when the proxy refuses the token; empty: no file
	// TokenFrom gets tokens, instead of Token and TokenFile; nil: they count.
	TokenFrom *TokenSource
	// CAFile is a PEM file: with https, its certificates are trusted instead of the
	// system's. It is read again when the proxy's certificate is not trusted.
	CAFile    string
	ReadFile  func(path string) ([]byte, error) // reads CAFile for the first time; nil: [ReadFile]
	UserAgent string                            // "leasectl" if empty
	// Revive starts the proxy. It is called when nobody listens on the socket of the URL,
	// since a proxy that its clients start may have been killed; then the client connects
	// once more. Revive may block until the proxy listens, and several goroutines may call
	// it. Its error is a failed attempt, which is repeated unless the error is [Hopeless].
	// Nil: nobody starts the proxy.
	Revive func(context.Context) error
}

// Client speaks to one proxy, which may consist of several servers with one leader. It is
// safe for concurrent use.
type Client struct {
	name      string // the URLs without passwords, for messages
	servers   servers
	socket    bool // the URL is a socket, which no browser reaches
	userAgent string
	credentials

	can      atomic.Int32 // the Capabilities that the proxy has shown
	verified atomic.Bool  // there was a connection to a server whose certificate was verified
	released releasedNames
	store    atomic.Pointer[string] // id of the proxy's store in its last answer with an id; nil: none yet
}

// Store returns the id of the proxy's store; names, generations and request ids mean
// something only within one store. It is "" before the first answer, and with version 1.
func (c *Client) Store() string {
	if id := c.store.Load(); id != nil {
		return *id
	}
	return ""
}

// Servers returns the number of servers that the URL lists.
func (c *Client) Servers() int { return len(c.servers.bases) }

// noteServer takes from an answer what the proxy is, and the id of its store. With a list of servers, an answer
// from another store than before is an error: a request would wait in two queues, and
// half of the servers would not know a lease.
func (c *Client) noteServer(o outcome) error {
	if o.err != nil || o.answer.Response == nil {
		return nil
	}
	if o.Header.Get(leaseapi.HeaderWire) != "" {
		c.learn(Ours)
	}
	id := o.Header.Get(leaseapi.HeaderStore)
	if leaseapi.CheckRequestID(id) != nil {
		return nil
	}
	if before := c.store.Load(); before != nil && *before != id && c.servers.several() {
		return fmt.Errorf("%w: %s (%s and %s): list servers of one store in --proxy", ErrTwoStores, c.name, *before, id)
	}
	c.store.Store(&id)
	return nil
}

// known returns the capabilities that the proxy has shown so far.
func (c *Client) known() Capabilities { return Capabilities(c.can.Load()) }

// isOurs reports whether the proxy is known to be leasectl's own server.
func (c *Client) isOurs() bool { return c.known() == Ours }

// learn notes what an answer proves. Callers must not pass a guess, as from a 404 that a gateway
// may have sent: a request may be sent twice to a proxy that is known to recognise it.
func (c *Client) learn(can Capabilities) { c.can.Store(int32(can)) }

const (
	// dialTime allows for one lost DNS packet: resolvers repeat it after five seconds.
	dialTime = 10 * time.Second
	// idleTime is shorter than the time after which NAT and load balancers
	// forget an idle connection: a request on a forgotten connection is lost
	// without notice.
	idleTime = 30 * time.Second
	// maxHeader is far larger than any legitimate header of a proxy.
	maxHeader = 64 << 10
)

// New returns a client for the proxy that o names. It does not connect. It fails if a
// URL, the token or the CA file is invalid.
func New(o Options) (*Client, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("lease proxy: %w", err)
	}
	return c, nil
}

func newClient(o Options) (*Client, error) {
	address, err := ParseAddress(o.URL)
	if err != nil {
		return nil, fmt.Errorf("URL: %w", err)
	}
	if err := leaseapi.CheckToken(o.Token); err != nil && o.TokenFile != "" {
		return nil, fmt.Errorf("token file %s: %w: want the token alone", o.TokenFile, err)
	} else if err != nil {
		return nil, err
	}
	c := &Client{name: address.Redacted(), userAgent: o.UserAgent}
	c.file.token, c.from, c.transport = o.Token, o.TokenFrom, newTransport()
	if o.TokenFile != "" && o.TokenFrom == nil {
		c.file.opened(o.TokenFile, o.Token)
	}
	if c.userAgent == "" {
		c.userAgent = "leasectl"
	}
	for _, u := range address.urls {
		c.servers.bases = append(c.servers.bases, spelling(u))
	}
	if path := address.Socket(); path != "" {
		c.servers.bases[0], c.socket = "http://localhost", true
		c.transport.Proxy = nil
		c.transport.DialContext = tracked(dialSocket(path, o.Revive))
	}
	secure := slices.ContainsFunc(address.urls, func(u *url.URL) bool { return u.Scheme == "https" })
	if secure && o.CAFile != "" {
		read := o.ReadFile
		if read == nil {
			read = func(path string) ([]byte, error) { return ReadFile(path, MaxCA) }
		}
		if err := c.trust(o.CAFile, read); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// pageURL returns the URL of a page of the proxy for a browser; "" if a browser cannot
// reach it.
func (c *Client) pageURL(path string) string {
	if c.socket || !strings.HasPrefix(path, "/") {
		return ""
	}
	_, base := c.servers.ask()
	u, err := below(base, path)
	if err != nil {
		return ""
	}
	u.User = nil
	return leaseapi.Printable(u.String())
}

// Close closes the idle connections. The client stays usable.
func (c *Client) Close() { c.current().CloseIdleConnections() }

func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: dialTime,
		// A request may wait for hours without a byte on the wire. The probes
		// break the connection half a minute after its peer disappeared.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
}

// dialSocket returns a dial function that always connects to the socket at path.
func dialSocket(path string, revive func(context.Context) error) dialFunc {
	dial := func(ctx context.Context) (net.Conn, error) {
		conn, err := dialer().DialContext(ctx, "unix", path)
		if err == nil {
			if err = checkPeer(conn, path); err != nil {
				conn.Close()
				return nil, Hopeless(err)
			}
		}
		return conn, err
	}
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := dial(ctx)
		if revive == nil || !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
			return conn, err
		}
		if failed := revive(ctx); failed != nil {
			return nil, failed
		}
		return dial(ctx)
	}
}

func newTransport() *http.Transport {
	// With HTTP/1.1 a connection carries one request at a time, so the bytes written
	// on it tell whether the request can have left.
	var onlyHTTP1 http.Protocols
	onlyHTTP1.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            tracked(dialer().DialContext),
		Protocols:              &onlyHTTP1,
		TLSHandshakeTimeout:    dialTime,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // answers are small, and must not grow when unpacked
	}
}

// through names the HTTP proxy that t sends req through: the environment variable that
// sets it, and its URL. It is "" if there is no HTTP proxy.
func through(t *http.Transport, req *http.Request) string {
	if t.Proxy == nil {
		return ""
	}
	u, err := t.Proxy(req)
	if u == nil || err != nil {
		return ""
	}
	return req.URL.Scheme + "_proxy " + redacted(u)
}

// servers are the URLs of the servers of one proxy. One server leads; the others refuse
// calls, and may name the leader. Mostly there is only one URL.
type servers struct {
	bases   []string     // URLs without a slash at the end; paths are appended
	current atomic.Int64 // index of the server to ask
}

// several reports whether there is more than one server.
func (s *servers) several() bool { return len(s.bases) > 1 }

// ask returns the server to ask, and its index.
func (s *servers) ask() (index int, base string) {
	index = int(s.current.Load())
	return index, s.bases[index]
}

// leave switches from the server with that index to another one: to leader if that is a
// URL of the list, else to the next. A leader outside of the list is not asked, since
// it would get the token.
func (s *servers) leave(index int, leader string) {
	next := (index + 1) % len(s.bases)
	for i, base := range s.bases {
		if i != index && leader != "" && base == baseOf(leader) {
			next = i
		}
	}
	s.current.CompareAndSwap(int64(index), int64(next)) // fails if another call has switched already
}

// baseOf returns the URL of a server in the form of bases; "" if it is no URL.
func baseOf(text string) string {
	u, err := ParseURL(text)
	if err != nil {
		return ""
	}
	return spelling(u)
}
