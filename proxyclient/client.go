package proxyclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options say where the proxy is. Only URL must be set.
type Options struct {
	URL       string // http://host[:port][/prefix], https://…, or unix:///path/of/socket
	Token     string // sent as a bearer token (RFC 6750) if not empty
	CAFile    string // PEM file; with https, its certificates are trusted instead of the system's
	UserAgent string // "leasectl" if empty
}

// Client speaks to one proxy. It is safe for concurrent use.
type Client struct {
	name      string // the URL as it may be shown
	base      string // the URL that paths are appended to
	token     string
	userAgent string
	transport *http.Transport

	// knowsIDs is set by the first answer that shows that the proxy knows
	// request ids. It is never set on a guess: all that may be sent twice
	// hangs on it.
	knowsIDs atomic.Bool

	mu       sync.Mutex
	released map[string]bool // bare names whose release may have reached the proxy
}

const (
	// dialTime covers one lost DNS packet, which resolvers send again after
	// five seconds.
	dialTime = 10 * time.Second
	// idleTime is shorter than NAT and load balancers keep an idle connection
	// in mind: a request written into a forgotten one is lost without a word.
	idleTime = 30 * time.Second
	// maxHeader is far above any header a proxy has reason to send.
	maxHeader = 64 << 10
)

// New returns a client for the proxy that o names. It does not connect.
func New(o Options) (*Client, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, fmt.Errorf("lease proxy: %w", err)
	}
	return c, nil
}

func newClient(o Options) (*Client, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token holds white space or characters outside ASCII")
	}
	c := &Client{
		name:      u.Redacted(),
		base:      strings.TrimRight(u.String(), "/"),
		token:     o.Token,
		userAgent: o.UserAgent,
		transport: newTransport(),
		released:  make(map[string]bool),
	}
	if c.userAgent == "" {
		c.userAgent = "leasectl"
	}
	if u.Scheme == "unix" {
		c.base = "http://localhost"
		c.transport.Proxy = nil
		c.transport.DialContext = tracked(func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer().DialContext(ctx, "unix", u.Path)
		})
	}
	if u.Scheme == "https" && o.CAFile != "" {
		roots, err := readRoots(o.CAFile)
		if err != nil {
			return nil, err
		}
		c.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	return c, nil
}

// Close drops the idle connections. The client stays usable.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

func parseURL(s string) (*url.URL, error) {
	const want = "want http://HOST[:PORT], https://HOST[:PORT] or unix:///PATH"
	u, err := url.Parse(s)
	if err != nil {
		// What url.Parse says of it holds the URL, and that may hold a password.
		return nil, fmt.Errorf("the URL cannot be parsed: %s", want)
	}
	switch {
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("URL %q has a query or a fragment: %s", u.Redacted(), want)
	case (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "":
		return u, nil
	case u.Scheme == "unix" && u.Host == "" && u.User == nil && len(u.Path) > 1:
		return u, nil
	}
	return nil, fmt.Errorf("URL %q: %s", u.Redacted(), want)
}

func readRoots(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read CA: %s: no certificate in PEM form", path)
	}
	return roots, nil
}

func dialer() *net.Dialer {
	return &net.Dialer{
		Timeout: dialTime,
		// A request may wait for hours without a byte on the wire. Half a
		// minute after the peer has gone, the connection breaks.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
}

func newTransport() *http.Transport {
	// With HTTP/1.1 a connection carries one request at a time, so what was
	// written on it tells whether the request can have left.
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
