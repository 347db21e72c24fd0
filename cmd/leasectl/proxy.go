package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// proxyVariable is where step scripts have always had the proxy's address.
const proxyVariable = "LEASE_PROXY_SERVER_URL"

// proxyOptions say which lease proxy to talk to.
type proxyOptions struct {
	url       string
	given     bool // on the command line: then it counts before what a handle remembers
	tokenFile string
	ca        string
	pools     poolFlags // of the server to start
}

func (o *proxyOptions) bind(flags *pflag.FlagSet) {
	flags.Var(value{
		kind:   "URL",
		format: func() string { return o.url },
		set: func(s string) error {
			if s != "" {
				if _, err := parseProxy(s); err != nil {
					return err
				}
			}
			o.url = s
			return nil
		},
	}, "proxy", "lease proxy: http://…, https://…, unix:///socket, or local to start one here; also $"+proxyVariable+"; unset is a dry run")
	flags.Var(&o.pools, "pool", "a pool of N leases named TYPE-0 and so on, for serve or the proxy that --proxy local starts; may be repeated")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with the token that the proxy asks for")
	flags.StringVar(&o.ca, "ca", "", "file with the certificates (PEM) of the authorities that vouch for an https proxy")
}

// unset tells whether there is no proxy, which makes every command a dry run.
func (o *proxyOptions) unset() bool { return o.url == "" }

// endpoint is a proxy's address, understood.
type endpoint struct {
	url    string // as proxyclient takes it; empty for a local one
	socket string // path of a Unix socket
	local  string // state directory of the local proxy
}

// parseProxy understands what --proxy takes. "local" stands for the proxy of
// the state directory; a handle remembers which one as local:///directory.
func parseProxy(s string) (endpoint, error) {
	if s == "local" {
		return endpoint{local: stateDir()}, nil
	}
	u, err := url.Parse(s)
	if err == nil {
		switch {
		case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
			return endpoint{url: s}, nil
		case u.Scheme == "unix" && u.Host == "" && filepath.IsAbs(u.Path):
			return endpoint{socket: u.Path}, nil
		case u.Scheme == "local" && u.Host == "" && filepath.IsAbs(u.Path):
			return endpoint{local: u.Path}, nil
		}
	}
	return endpoint{}, errors.New("want http://HOST, https://HOST, unix:///PATH or local")
}

// proxyOf is the proxy that the leases of a handle were got from, unless the
// command line names another; "" if nothing does.
func (a *app) proxyOf(r lockfile.Record) string {
	if r.Proxy == "" || a.proxy.given {
		return a.proxy.url
	}
	return r.Proxy
}

// name is how a handle remembers the proxy it was got from: it must mean the
// same in a later step with another environment.
func (e endpoint) name() string {
	switch {
	case e.local != "":
		return (&url.URL{Scheme: "local", Path: e.local}).String()
	case e.socket != "":
		return (&url.URL{Scheme: "unix", Path: e.socket}).String()
	}
	return e.url
}

// clients are those of one run, by proxy: what acquires and what releases, in
// the same process, share a connection.
type clients struct {
	mu   sync.Mutex
	open map[string]*proxyclient.Client
	done []func()
}

// close ends all of them.
func (c *clients) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.open {
		client.Close()
	}
	for _, done := range c.done {
		done()
	}
}

// dial returns the client of a proxy, for the rest of the run. A local proxy is
// started if none runs, which is what it may block for.
func (a *app) dial(ctx context.Context, proxy string) (*proxyclient.Client, error) {
	e, err := parseProxy(proxy)
	if err != nil {
		return nil, usagef("--proxy %q: %w", proxy, err)
	}
	if len(a.proxy.pools) > 0 && e.local == "" {
		return nil, usagef("--pool goes with --proxy local: %s has its own pools", proxy)
	}
	c := &a.clients
	c.mu.Lock()
	defer c.mu.Unlock()
	if client := c.open[e.name()]; client != nil && e.local == "" {
		return client, nil
	}
	if e.local != "" {
		if err := a.ensureLocal(ctx, e.local); err != nil {
			return nil, err
		}
		e.socket = localSocket(e.local)
	}
	return a.open(e)
}

// open makes a client and keeps it; the lock of a.clients is held.
func (a *app) open(e endpoint) (*proxyclient.Client, error) {
	c := &a.clients
	if client := c.open[e.name()]; client != nil {
		return client, nil
	}
	options := proxyclient.Options{URL: e.url, CAFile: a.proxy.ca, UserAgent: "leasectl/" + version()}
	if a.proxy.tokenFile != "" {
		token, err := os.ReadFile(a.proxy.tokenFile)
		if err != nil {
			return nil, usagef("--token-file: %w", err)
		}
		options.Token = strings.TrimSpace(string(token))
	}
	if e.socket != "" {
		short, done, err := shortSocket(e.socket)
		if err != nil {
			return nil, err
		}
		c.done = append(c.done, done)
		options.URL = "unix://" + short
	}
	client, err := proxyclient.New(options)
	if err != nil {
		return nil, usageError{err}
	}
	if c.open == nil {
		c.open = make(map[string]*proxyclient.Client)
	}
	c.open[e.name()] = client
	return client, nil
}

// maxSocketPath is what fits into the sun_path of unix(7) on Linux (108 bytes)
// and macOS (104), with the zero at its end.
const maxSocketPath = 103

// shortSocket returns a path for a socket that fits into a socket address. A
// longer one goes through an open descriptor of its folder, which must stay
// open until done is called.
func shortSocket(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	if runtime.GOOS != "linux" {
		return "", nil, fmt.Errorf("socket path of %d bytes: at most %d fit: set a shorter $LEASECTL_STATE_DIR or --socket", len(path), maxSocketPath)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, fmt.Errorf("open the folder of socket %s: %w", path, err)
	}
	short = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	if len(short) > maxSocketPath {
		dir.Close()
		return "", nil, fmt.Errorf("socket name %q of %d bytes: choose a shorter one", filepath.Base(path), len(filepath.Base(path)))
	}
	return short, func() { dir.Close() }, nil
}

// stateDir is where handles and the local proxy live: one place for all jobs
// of a user on a machine, or two of them would not see each other.
func stateDir() string {
	if dir := os.Getenv("LEASECTL_STATE_DIR"); dir != "" {
		if abs, err := filepath.Abs(dir); err == nil {
			return abs
		}
		return dir
	}
	return fmt.Sprintf("/tmp/leasectl-%d", os.Getuid())
}
