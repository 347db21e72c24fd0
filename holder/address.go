package holder

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/holder/local"
	"github.com/leasectl/leasectl/proxyclient"
)

// address is the parsed address of a proxy: a url or a socket.
type address struct {
	url    string // as proxyclient takes it; may be a list
	socket string // path of a Unix socket
	local  string // state directory of the local proxy that listens on socket; "" if none does
}

func localAddress(dir string) address {
	return address{local: dir, socket: local.Proxy{Dir: dir}.Socket()}
}

// CheckProxy returns an error, with the reason, if proxy cannot be the address of a lease
// proxy.
func CheckProxy(proxy string) error {
	_, err := parseAddress(proxy, "/")
	return err
}

// parseAddress accepts all that [proxyclient.ParseURLs] accepts, and also local, which is the
// proxy of stateDir. A handle remembers local as local:///directory.
func parseAddress(s, stateDir string) (address, error) {
	if s == "local" {
		return localAddress(stateDir), nil
	}
	if u, err := url.Parse(s); err == nil && u.Scheme == "local" && u.Host == "" && filepath.IsAbs(u.Path) {
		return localAddress(u.Path), nil
	}
	urls, err := proxyclient.ParseURLs(s)
	if err != nil {
		return address{}, fmt.Errorf("%w or local", err)
	}
	if urls[0].Scheme == "unix" {
		return address{socket: urls[0].Path}, nil
	}
	each := make([]string, len(urls))
	for i, u := range urls {
		each[i] = strings.TrimRight(u.String(), "/")
	}
	return address{url: strings.Join(each, ",")}, nil // one spelling for each proxy, however it is typed
}

// sameProxy reports whether two recorded proxies are the same. Lists that share a URL are,
// since all servers of a list have one store.
func sameProxy(a, b string) bool {
	if a == b {
		return true
	}
	inB := strings.Split(b, ",")
	return slices.ContainsFunc(strings.Split(a, ","), func(u string) bool { return slices.Contains(inB, u) })
}

// String returns the address as a handle remembers it: it means the same in a later step with
// another environment.
func (a address) String() string {
	switch {
	case a.local != "":
		return (&url.URL{Scheme: "local", Path: a.local}).String()
	case a.socket != "":
		return proxyclient.SocketURL(a.socket)
	}
	return a.url
}
