package proxyserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// A server without tokens obeys everybody who can connect, but it must not obey a web page
// in the browser of such a person. The page can send a POST to any address: then the browser
// says that the origin is another. And the domain of the page can be made to resolve to the
// address of this server (DNS rebinding): then the browser takes both for one origin, but the
// Host is that of the page.

// checkOrigin refuses a call of the wire that a page of another origin sent or may have sent.
func (h *handler) checkOrigin(r *http.Request) error {
	if h.asksForTokens() {
		return nil // no page has a token
	}
	if err := h.crossOrigin.Check(r); err != nil {
		return forbiddenError(fmt.Sprintf("a page of another origin sent this: %v", err))
	}
	if h.knowsHost(r.Host) {
		return nil
	}
	if cameOnLoopback(r) {
		return forbiddenError(fmt.Sprintf("host %q is not this server, which listens on loopback: use localhost or its address, or name it to serve with --host", leaseapi.Shorten(r.Host)))
	}
	// Beyond loopback a server may have any name, for clients that no page can command.
	if isBrowser(r) && !isLocalAddress(r) {
		return forbiddenError(fmt.Sprintf("host %q is not known to this server, which asks for no tokens and got this from a browser: use its address, or name it to serve with --host", leaseapi.Shorten(r.Host)))
	}
	return nil
}

// browserHeaders are headers that browsers send and clients of the wire do not. Over http:// a
// browser tells the origin of a POST only; a page can change Accept-Language, but not leave it out.
var browserHeaders = [...]string{"Accept-Language", "Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode"}

// isBrowser reports whether a browser may have sent r.
func isBrowser(r *http.Request) bool {
	for _, name := range browserHeaders {
		if _, there := r.Header[name]; there {
			return true
		}
	}
	return false
}

// checkPageOrigin is checkOrigin for the status page. It is stricter: the origin counts with
// tokens too, since a browser sends its cookie by itself. Without tokens the host must be
// known to this server, or be the address that r came to, wherever the server listens.
func (h *handler) checkPageOrigin(r *http.Request) error {
	if err := h.crossOrigin.Check(r); err != nil {
		return fmt.Errorf("a page of another origin sent this: %w", err)
	}
	if h.asksForTokens() || h.knowsHost(r.Host) || isLocalAddress(r) {
		return nil
	}
	return fmt.Errorf("host %q is not known to this server, which asks for no tokens: use its address, or start it with --host and this name", leaseapi.Shorten(r.Host))
}

// isLocalAddress reports whether the host of r is the address that r came to, or r came
// over a Unix socket.
func isLocalAddress(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	address, ok := local.(*net.TCPAddr)
	if !ok {
		return true
	}
	ip := net.ParseIP(withoutPort(r.Host))
	return ip != nil && ip.Equal(address.IP)
}

// knowsHost reports whether host, with or without a port, names a server on loopback or is a
// name that this server was given. An empty host is known: browsers always send one.
func (h *handler) knowsHost(host string) bool {
	if host == "localhost" || host == "" { // the usual hosts, at no cost
		return true
	}
	host = strings.ToLower(strings.TrimSuffix(withoutPort(host), "."))
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || ip != nil && ip.IsLoopback() || slices.Contains(h.hosts, host)
}

// withoutPort returns a host without its port, and without the brackets of an address.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.Trim(host, "[]")
}

// loopbackKey is the key of a context's value: whether a listener is on loopback.
type loopbackKey struct{}

// listenerContext returns the parent of the contexts of all requests on l.
func listenerContext(l net.Listener) context.Context {
	a, ok := l.Addr().(*net.TCPAddr)
	return context.WithValue(context.Background(), loopbackKey{}, ok && a.IP.IsLoopback())
}

// cameOnLoopback reports whether the listener of r is on loopback.
func cameOnLoopback(r *http.Request) bool {
	is, _ := r.Context().Value(loopbackKey{}).(bool)
	return is
}
