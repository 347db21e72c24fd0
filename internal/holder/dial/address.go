package dial

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/leasectl/leasectl/internal/holder/local"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// address is the parsed address of a proxy.
type address struct {
	proxyclient.Address        // of a local proxy: its socket
	local               string // state directory of the local proxy that listens there; "" if none does
}

func localAddress(dir string) address {
	return address{Address: proxyclient.SocketAddress(local.Proxy{Dir: dir}.Socket()), local: dir}
}

// Check returns an error, with the reason, if proxy cannot be the address of a lease
// proxy.
func Check(proxy string) error {
	_, err := parseAddress(proxy, "/")
	return err
}

// parseAddress accepts all that [proxyclient.ParseAddress] accepts, and also local, which is the
// proxy of stateDir. A handle remembers local as local:///directory.
func parseAddress(s, stateDir string) (address, error) {
	if s == "local" {
		return localAddress(stateDir), nil
	}
	if u, err := url.Parse(s); err == nil && u.Scheme == "local" && u.Host == "" && filepath.IsAbs(u.Path) {
		return localAddress(u.Path), nil
	}
	a, err := proxyclient.ParseAddress(s)
	if errors.Is(err, proxyclient.ErrURL) {
		err = fmt.Errorf("%w or local%s", err, passwordHint(s))
	}
	return address{Address: a}, err
}

// passwordHint says how to write a password if s has one with other characters than a URL may have there.
func passwordHint(s string) string {
	if end := strings.LastIndexByte(s, '@'); end < 0 || !strings.ContainsAny(strings.Replace(s[:end], "://", "", 1), "#/?% ") {
		return ""
	}
	return ": in a password write # as %23, / as %2F, ? as %3F, % as %25"
}

// Same reports whether two recorded proxies are the same: their addresses overlap.
func Same(a, b string) bool {
	if a == b {
		return true
	}
	first, err := parseAddress(a, "/")
	if err != nil {
		return false
	}
	second, err := parseAddress(b, "/")
	return err == nil && first.Overlaps(second.Address)
}

// String returns the address as a handle remembers it: one spelling for each proxy, which means
// the same in a later step with another environment.
func (a address) String() string {
	if a.local != "" {
		return (&url.URL{Scheme: "local", Path: a.local}).String()
	}
	return a.Address.String()
}

// Redacted returns r as it may be printed: without the passwords of proxies, and its seal.
func Redacted(r lockfile.Record) lockfile.Record {
	r.Proxy, r.Seal = proxyclient.Redacted(r.Proxy), ""
	if r.Store != "" && !IsStoreID(r.Store) {
		r.Store = proxyclient.Redacted(r.Store)
	}
	return r
}
