package etcd

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// defaultPort is where etcd listens for clients.
const defaultPort = "2379"

// IsURL reports whether s is meant for [ParseURL] and not as a directory. That includes URLs
// of other schemes, and URLs that lack a slash or the colon: ParseURL refuses these, while a
// directory of that name would be made silently. A directory of such a name is ./NAME.
func IsURL(s string) bool {
	first, rest, more := strings.Cut(s, "/")
	name, _, colon := strings.Cut(first, ":")
	switch {
	case strings.Contains(s, "://"), more && strings.HasSuffix(first, ":"): // http:/a/p
		return true
	case colon, strings.HasPrefix(rest, "/"): // etcd:a/p, etcd//a/p
		return strings.EqualFold(name, "etcd") || strings.EqualFold(name, "etcds")
	}
	return false
}

// Address is where a store is in etcd.
type Address struct {
	TLS    bool
	Hosts  []string // HOST:PORT of etcd's members
	Prefix string   // of all keys of the store, without a slash at its end
}

// ParseURL parses etcd://HOST[:PORT][,HOST…]/PREFIX, or etcds:// for TLS. The default port
// is 2379.
func ParseURL(s string) (Address, error) {
	wrong := func(why string) (Address, error) {
		return Address{}, fmt.Errorf("%s: want etcd://HOST[:PORT],HOST[:PORT],…/PREFIX, or etcds:// for TLS", why)
	}
	scheme, rest, _ := strings.Cut(s, "://")
	if scheme != "etcd" && scheme != "etcds" {
		a, err := wrong("no URL of etcd")
		return a, fmt.Errorf("%w; a directory of such a name is ./NAME", err)
	}
	hosts, prefix, _ := strings.Cut(rest, "/")
	if strings.Contains(hosts, "@") {
		return wrong("a user and a password belong into a file of their own")
	}
	a := Address{TLS: scheme == "etcds", Prefix: strings.Trim(prefix, "/")}
	if a.Prefix == "" || strings.ContainsAny(a.Prefix, "?#") {
		return wrong("a prefix of the keys is missing, or has a query")
	}
	// A store at a would take the keys of a store at a/records for its own records, and delete
	// the keys of a store at a/standby.
	for _, part := range strings.Split(a.Prefix, "/")[1:] {
		if part == "records" || part == "standby" {
			return wrong(fmt.Sprintf("%q in the prefix, after its first part, is for the keys of another store", part))
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.Trim(host, "[]"), defaultPort
			host = net.JoinHostPort(name, port)
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 || name == "" || strings.ContainsAny(name, " []/?#") {
			return wrong(fmt.Sprintf("%q is no host", host))
		}
		a.Hosts = append(a.Hosts, host)
	}
	return a, nil
}

// scheme returns the scheme of the members' URLs.
func (a Address) scheme() string {
	if a.TLS {
		return "https://"
	}
	return "http://"
}
