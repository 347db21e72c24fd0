package holder

import (
	"errors"
	"net/url"
	"path/filepath"
)

// address is that of a proxy, understood. One of its fields is set.
type address struct {
	url    string // as proxyclient takes it
	socket string // path of a Unix socket
	local  string // state directory of a local proxy
}

// CheckProxy reports why proxy cannot be the address of a lease proxy.
func CheckProxy(proxy string) error {
	_, err := parseAddress(proxy, "/")
	return err
}

// parseAddress understands http://…, https://…, unix:///socket, and local, the
// proxy of the state directory. A handle remembers which local one as
// local:///directory.
func parseAddress(s, stateDir string) (address, error) {
	if s == "local" {
		return address{local: stateDir}, nil
	}
	u, err := url.Parse(s)
	if err == nil {
		switch {
		case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
			return address{url: s}, nil
		case u.Scheme == "unix" && u.Host == "" && filepath.IsAbs(u.Path):
			return address{socket: u.Path}, nil
		case u.Scheme == "local" && u.Host == "" && filepath.IsAbs(u.Path):
			return address{local: u.Path}, nil
		}
	}
	return address{}, errors.New("want http://HOST, https://HOST, unix:///PATH or local")
}

// String returns what a handle remembers: it means the same in a later step with
// another environment.
func (a address) String() string {
	switch {
	case a.local != "":
		return (&url.URL{Scheme: "local", Path: a.local}).String()
	case a.socket != "":
		return (&url.URL{Scheme: "unix", Path: a.socket}).String()
	}
	return a.url
}
