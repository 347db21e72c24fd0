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

// ErrURL says that a text is none of the addresses that a proxy may have.
var ErrURL = errors.New("want http://HOST, https://HOST, unix:///PATH")

var (
	errScheme = errors.New("want a scheme before each URL of a list, as in http://HOST,http://HOST (a comma within a path is %2C)")
	errSocket = errors.New("want http:// or https:// URLs in a list: a socket is one server")
	errPort   = errors.New("want a port of 1 to 65535")
	errQuery  = fmt.Errorf("has a query or a fragment: %w", ErrURL)
)

// Address is the address of a lease proxy: the URLs of its servers, which share one store, or
// the one socket that it listens on. The zero Address is none.
type Address struct{ urls []*url.URL }

// ParseAddress parses one URL as [ParseURL] does, or a list of http and https URLs.
//
// A comma separates two URLs if a scheme and :// follow it. Other commas belong to the URL. They
// may be in a user name, a password and the path of a socket. In the host, port and path of an
// http or https URL they are an error, since a URL without its scheme is meant; a path may have
// %2C. A URL that repeats another one is dropped.
func ParseAddress(s string) (Address, error) {
	var a Address
	parts := splitList(s)
	for _, part := range parts {
		u, err := ParseURL(part)
		switch {
		case err != nil:
			return Address{}, err
		case len(parts) > 1 && !strings.Contains(part, "://"):
			return Address{}, errScheme
		case len(parts) > 1 && u.Scheme == "unix":
			return Address{}, errSocket
		case !slices.ContainsFunc(a.urls, func(other *url.URL) bool { return spelling(other) == spelling(u) }):
			a.urls = append(a.urls, u)
		}
	}
	return a, nil
}

// SocketAddress returns the address of the proxy on the socket at path, which must be absolute
// and may have any characters.
func SocketAddress(path string) Address {
	return Address{[]*url.URL{{Scheme: "unix", Path: path}}}
}

// String returns a text that [ParseAddress] takes for the same address, with passwords. Equal
// addresses have equal texts, but for the order of a list.
func (a Address) String() string { return a.join(spelling) }

// Redacted is String without passwords, for messages.
func (a Address) Redacted() string { return a.join(redacted) }

// Redacted returns an address as messages show it: without passwords. A text that is no address may
// be one with a # in its password, so all from the first colon after :// to the last @ counts as
// password.
func Redacted(address string) string {
	if a, err := ParseAddress(address); err == nil {
		return a.Redacted()
	}
	return mask(address)
}

// redacted returns u without its password, which may have landed in its path: http://me:1/2@host.
func redacted(u *url.URL) string {
	if u.Scheme == "unix" {
		return u.Redacted()
	}
	return mask(u.Redacted())
}

// mask replaces the password in text, if there is one.
func mask(text string) string {
	begin := 0
	if beginsWithScheme(text) {
		begin = strings.Index(text, "://") + len("://")
	}
	user, rest, found := strings.Cut(text[begin:], ":")
	at := strings.LastIndexByte(rest, '@')
	if !found || at < 0 {
		return text
	}
	return text[:begin] + user + ":xxxxx" + rest[at:]
}

func (a Address) join(text func(*url.URL) string) string {
	texts := make([]string, len(a.urls))
	for i, u := range a.urls {
		texts[i] = text(u)
	}
	return strings.Join(texts, ",")
}

// Overlaps tells whether two addresses have a URL in common. Then they are of one proxy, since
// all servers of a list share one store.
func (a Address) Overlaps(b Address) bool {
	return slices.ContainsFunc(a.urls, func(u *url.URL) bool {
		return slices.ContainsFunc(b.urls, func(v *url.URL) bool { return spelling(u) == spelling(v) })
	})
}

// Socket returns the path of the proxy's Unix socket; "" if it listens on the network.
func (a Address) Socket() string {
	if len(a.urls) == 1 && a.urls[0].Scheme == "unix" {
		return a.urls[0].Path
	}
	return ""
}

// ClearText returns the first URL of the address that sends requests in clear text over a
// network: http to another machine. The URL is without password. It is "" if there is none.
func (a Address) ClearText() string {
	for _, u := range a.urls {
		ip := net.ParseIP(u.Hostname())
		here := strings.EqualFold(u.Hostname(), "localhost") || ip != nil && ip.IsLoopback()
		if u.Scheme == "http" && !here {
			return redacted(u)
		}
	}
	return ""
}

// splitList cuts a list before each URL, at the comma. Only here a list is taken apart.
func splitList(s string) (parts []string) {
	begin := 0
	for i := range len(s) {
		if s[i] == ',' && beginsWithScheme(s[i+1:]) {
			parts, begin = append(parts, s[begin:i]), i+1
		}
	}
	return append(parts, s[begin:])
}

// beginsWithScheme tells whether s begins with a scheme (RFC 3986, section 3.1) and ://.
func beginsWithScheme(s string) bool {
	end := strings.IndexFunc(s, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !letter && !('0' <= r && r <= '9') && !strings.ContainsRune("+-.", r)
	})
	return end > 0 && strings.HasPrefix(s[end:], "://")
}

// ParseURL parses the URL of one server as a user types it:
// http://HOST[:PORT][/PREFIX], https://HOST[:PORT][/PREFIX], or
// unix:///PATH of a socket, which is the Path of the result. The default scheme is
// http. The host of the result is in lower case, and without the default port of its scheme.
// The error describes the expected form. It does not repeat s, which may hold a password.
func ParseURL(s string) (*url.URL, error) {
	if s == "local" {
		return nil, ErrURL // a keyword of leasectl, not a host
	}
	if !strings.Contains(s, "://") {
		if strings.Contains(s, ":/") {
			return nil, ErrURL // unix:/PATH, http:/HOST: not a host called unix or http
		}
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if commaAfterUser(s) && (err != nil || u.Scheme != "unix") {
		return nil, errScheme
	}
	if err != nil {
		return nil, ErrURL // the error of url.Parse repeats s
	}
	web := (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
	if u.Scheme == "unix" {
		normalizePath(u)
	}
	socket := u.Scheme == "unix" && u.Host == "" && u.User == nil && len(u.Path) > 1
	switch {
	case !web && !socket:
		return nil, ErrURL
	case web && (!validPort(u.Port()) || strings.HasSuffix(u.Host, ":")): // HOST:$PORT, unset
		return nil, errPort
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errQuery
	}
	if web {
		normalizeHost(u)
	}
	return u, nil
}

// commaAfterUser tells whether a URL has a comma after its user and password.
func commaAfterUser(s string) bool {
	_, rest, _ := strings.Cut(s, "://")
	authority, _, _ := strings.Cut(rest, "/")
	return strings.Contains(rest[strings.LastIndexByte(authority, '@')+1:], ",")
}

// normalizePath drops from the path of a socket what changes nothing. The parent of a link is not that of its path, so .. stays.
func normalizePath(u *url.URL) {
	if !strings.HasPrefix(u.Path, "/") {
		return
	}
	parts := slices.DeleteFunc(strings.Split(u.Path, "/"), func(part string) bool { return part == "" || part == "." })
	u.Path, u.RawPath = "/"+strings.Join(parts, "/"), ""
}

// normalizeHost gives the host and port of u the form that all their spellings have in common.
func normalizeHost(u *url.URL) {
	if !strings.Contains(u.Host, "%") { // the zone of an IPv6 address is a name of its own
		u.Host = strings.ToLower(u.Host)
	}
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; u.Port() == port[1:] {
		u.Host = strings.TrimSuffix(u.Host, port)
	}
}

// validPort reports whether port is 1 to 65535, or "", the default of the scheme.
func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// spelling returns the one text by which equal URLs are compared and remembered: without slashes
// at the end, and for a socket without a comma that could begin another URL.
func spelling(u *url.URL) string {
	if u.Scheme == "unix" {
		return strings.ReplaceAll((&url.URL{Scheme: "unix", Path: u.Path}).String(), ",", "%2C")
	}
	return strings.TrimRight(u.String(), "/")
}

// below returns the URL of path, which may have a query, on the server at base.
func below(base, path string) (*url.URL, error) { return url.Parse(base + path) }
