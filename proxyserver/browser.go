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

// A server without tokens does what anybody asks who can connect. That is not meant for
// a web page in the browser of somebody who can connect. Such a page can send a POST to
// any address: then the browser says that the origin is another. And the domain of the
// page can be made to resolve to the address of this server (DNS rebinding): then the
// browser takes the two for one origin, but the Host is that of the page.

// fromBrowser reports why r is, or may be, one that a page of another origin sent.
func (h *handler) fromBrowser(r *http.Request) error {
	if h.asksForTokens() {
		return nil // no page has one
	}
	if err := h.crossOrigin.Check(r); err != nil {
		return forbiddenError(fmt.Sprintf("a page of another origin sent this: %v", err))
	}
	// Elsewhere than on loopback a server may have any name.
	if cameOnLoopback(r) && !h.isOurs(r.Host) {
		return forbiddenError(fmt.Sprintf("host %q is not this server, which listens on loopback: use localhost or its address, or name it to serve with --host", leaseapi.Shorten(r.Host)))
	}
	return nil
}

// isOurs reports whether host, with or without a port, names a server on loopback.
// A browser always names one.
func (h *handler) isOurs(host string) bool {
	if host == "localhost" || host == "" { // as most say, at no cost
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || ip != nil && ip.IsLoopback() || slices.Contains(h.hosts, host)
}

// loopbackKey is the key of a context's value: whether a listener is on loopback.
type loopbackKey struct{}

// listenerContext is the context from which those of all requests on l come.
func listenerContext(l net.Listener) context.Context {
	a, ok := l.Addr().(*net.TCPAddr)
	return context.WithValue(context.Background(), loopbackKey{}, ok && a.IP.IsLoopback())
}

// cameOnLoopback reports whether the listener of r is on loopback.
func cameOnLoopback(r *http.Request) bool {
	is, _ := r.Context().Value(loopbackKey{}).(bool)
	return is
}
