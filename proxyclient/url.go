package proxyclient

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

var (
	errURL   = errors.New("want http://HOST, https://HOST, unix:///PATH")
	errQuery = fmt.Errorf("has a query or a fragment: %w", errURL)
)

// ParseURL understands the address of a lease proxy as a user types it:
// http://HOST[:PORT][/PREFIX], https://HOST[:PORT][/PREFIX], or
// unix:///PATH of a socket, which is the Path of the result. Without a scheme it is
// http. The error says what is wanted, and does not repeat s: that may hold a
// password.
func ParseURL(s string) (*url.URL, error) {
	if s == "local" {
		return nil, errURL // a word of leasectl, and no host
	}
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, errURL // what url.Parse says repeats s
	}
	web := (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
	socket := u.Scheme == "unix" && u.Host == "" && u.User == nil && len(u.Path) > 1
	switch {
	case !web && !socket:
		return nil, errURL
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errQuery
	}
	return u, nil
}

// SocketURL returns the address of the proxy on the socket at path, which must
// be absolute. [ParseURL] gives path back, whatever characters it has.
func SocketURL(path string) string {
	return (&url.URL{Scheme: "unix", Path: path}).String()
}
