package proxyclient

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

var (
	errURL   = errors.New("want http://HOST, https://HOST, unix:///PATH")
	errList  = errors.New("want http://HOST,http://HOST,… or https:// in a list of URLs")
	errPort  = errors.New("want a port of 1 to 65535")
	errQuery = fmt.Errorf("has a query or a fragment: %w", errURL)
)

// ParseURL parses the address of a lease proxy as a user types it:
// http://HOST[:PORT][/PREFIX], https://HOST[:PORT][/PREFIX], or
// unix:///PATH of a socket, which is the Path of the result. The default scheme is
// http. The error describes the expected form. It does not repeat s, which may hold a
// password.
func ParseURL(s string) (*url.URL, error) {
	if s == "local" {
		return nil, errURL // a keyword of leasectl, not a host
	}
	if !strings.Contains(s, "://") {
		if strings.Contains(s, ":/") {
			return nil, errURL // unix:/PATH, http:/HOST: not a host called unix or http
		}
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, errURL // the error of url.Parse repeats s
	}
	web := (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
	socket := u.Scheme == "unix" && u.Host == "" && u.User == nil && len(u.Path) > 1
	switch {
	case !web && !socket:
		return nil, errURL
	case web && (!validPort(u.Port()) || strings.HasSuffix(u.Host, ":")): // HOST:$PORT, unset
		return nil, errPort
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errQuery
	}
	return u, nil
}

// validPort reports whether port is 1 to 65535, or "", the default of the scheme.
func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// ParseURLs parses the addresses of the servers of one lease proxy: one address as for
// [ParseURL], or several, separated by commas. In a list of several each address needs
// the scheme http or https. Repeated addresses are dropped.
func ParseURLs(s string) ([]*url.URL, error) {
	parts := splitURLs(s)
	var all []*url.URL
	for _, part := range parts {
		u, err := ParseURL(part)
		if err != nil {
			return nil, err
		}
		if len(parts) > 1 && (u.Scheme == "unix" || !strings.Contains(part, "://")) {
			return nil, errList
		}
		if !slices.ContainsFunc(all, func(other *url.URL) bool { return trimmed(other) == trimmed(u) }) {
			all = append(all, u)
		}
	}
	return all, nil
}

// splitURLs cuts a list at the commas before a scheme. Other commas may belong to a path
// or a password.
func splitURLs(s string) (parts []string) {
	begin := 0
	for i := range s {
		rest := s[i:]
		if i > begin && (strings.HasPrefix(rest, ",http://") || strings.HasPrefix(rest, ",https://") || strings.HasPrefix(rest, ",unix://")) {
			parts, begin = append(parts, s[begin:i]), i+1
		}
	}
	return append(parts, s[begin:])
}

// ClearText returns the first URL of s that sends requests in clear text over a network:
// http to another machine. The URL is without password. It is "" if there is none, or s
// is invalid.
func ClearText(s string) string {
	urls, err := ParseURLs(s)
	if err != nil {
		return ""
	}
	for _, u := range urls {
		ip := net.ParseIP(u.Hostname())
		here := strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
		if u.Scheme == "http" && !here {
			return u.Redacted()
		}
	}
	return ""
}

// SocketURL returns the address of the proxy on the socket at path, which must
// be absolute. [ParseURL] returns the same path, whatever characters it has.
func SocketURL(path string) string {
	return (&url.URL{Scheme: "unix", Path: path}).String()
}

// trimmed returns u without slashes at its end, so that equal addresses compare equal.
func trimmed(u *url.URL) string { return strings.TrimRight(u.String(), "/") }

// below returns the URL of path, which may have a query, on the server at base.
func below(base, path string) (*url.URL, error) { return url.Parse(base + path) }
