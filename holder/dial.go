package holder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/leasectl/leasectl/holder/local"
	"github.com/leasectl/leasectl/holder/socket"
	"github.com/leasectl/leasectl/holder/tokenfrom"
	v1 "github.com/leasectl/leasectl/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// ProxyOptions say which lease proxy to talk to, and how.
type ProxyOptions struct {
	URL       string       // http://…, https://…, unix:///socket or local; "" is none
	Given     bool         // the user named URL just now: it overrides the proxy that a handle remembers
	TokenFile string       // with the token that the proxy asks for; "" is none
	TokenFrom string       // gets that token instead, see package tokenfrom; "" is nothing
	CAFile    string       // PEM file of the authorities that vouch for an https proxy; "": the system's
	Pools     []local.Pool // of the local proxy to start
	// PoolsGiven: the user named Pools just now, so a proxy other than local is an error.
	// Otherwise Pools are a setting of the job, and other proxies ignore them.
	PoolsGiven bool
	Version    string // of this program
}

// dialer makes the clients of one run, one per proxy, so that an acquire and a release in the
// same process share a connection.
type dialer struct {
	ProxyOptions
	stateDir  string
	report    Reporter
	listening <-chan struct{}
	pipes     pipes // among the files
	adapter   *v1.Adapter

	mu      sync.Mutex               // guards the rest, also while dial starts a local proxy
	clients map[string]*v1.Proxy     // by the name of their proxy
	done    []func()                 // called by close after it has closed the clients
	warned  bool                     // the user was warned of a token in clear text
	tokens  *proxyclient.TokenSource // made by source; nil: not made yet
}

// running returns a new client of a proxy, and does not start a local one.
func (d *dialer) running(ctx context.Context, proxy string) (*proxyclient.Client, error) {
	a, err := d.parse(proxy)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open(ctx, a, nil)
}

// close ends all clients.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, client := range d.clients {
		client.Close()
	}
	for _, done := range d.done {
		done()
	}
}

// proxyOf returns the proxy to ask about a lease of a recorded proxy: the recorded one,
// unless the user named another just now; "" if neither is known.
func (d *dialer) proxyOf(recorded string) string {
	if recorded == "" || d.Given {
		return d.URL
	}
	return recorded
}

// name returns a proxy's address as a handle remembers it.
func (d *dialer) name(proxy string) (string, error) {
	a, err := d.parse(proxy)
	return a.String(), err
}

// storeOf identifies the store of a proxy: names and generations mean something only within one
// store. It returns the recorded id, else the id that the proxy has told, else the proxy's
// address. A version-1 proxy has no id, so its store counts as two if it has two addresses.
func (d *dialer) storeOf(recorded, proxy string) string {
	if recorded != "" {
		return recorded
	}
	name, err := d.name(proxy)
	if err != nil {
		return proxy
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if client := d.clients[name]; client != nil && client.Store() != "" {
		return client.Store()
	}
	return name
}

func (d *dialer) parse(proxy string) (address, error) {
	a, err := parseAddress(proxy, d.stateDir)
	if err != nil {
		return a, invalidf("--proxy %q: %w", leaseapi.Shorten(proxyclient.Redacted(proxy)), err)
	}
	return a, nil
}

// dial returns the client of a proxy, for the rest of the run. It blocks to start a local proxy
// that does not run. If the local proxy stops later, the client starts it again.
func (d *dialer) dial(ctx context.Context, proxy string) (*v1.Proxy, error) {
	a, err := d.parse(proxy)
	if err != nil {
		return nil, err
	}
	asked := proxy == d.URL || !d.Given // else this is about a lease that another proxy granted
	if d.PoolsGiven && a.local == "" && asked {
		return nil, invalidf("--pool goes with --proxy local: %s has its own pools", proxy)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := a.String()
	if client := d.clients[name]; client != nil {
		return client, nil
	}
	var revive func(context.Context) error
	if a.local != "" {
		revive = func(ctx context.Context) error { return d.ensureLocal(ctx, a.local) }
		if err := revive(ctx); err != nil {
			return nil, err
		}
	}
	client, err := d.open(ctx, a, revive)
	if err != nil {
		return nil, err
	}
	if d.clients == nil {
		d.clients = make(map[string]*v1.Proxy)
	}
	p := &v1.Proxy{Client: client, Address: name, Adapter: d.adapter}
	d.clients[name] = p
	return p, nil
}

// ensureLocal starts the local proxy of a state directory unless it runs.
func (d *dialer) ensureLocal(ctx context.Context, dir string) error {
	if err := makeStateDir(dir); err != nil {
		return err
	}
	err := local.Proxy{Dir: dir, Pools: d.Pools, Debugf: d.report.Debugf}.Ensure(ctx)
	if _, wrongPools := errors.AsType[local.PoolsError](err); wrongPools {
		return invalidError{err}
	}
	return err
}

// dialFor is dial for a call about what a record holds or waits for. It is an error if proxy has
// another store: the names would mean other leases there, or nothing. A proxy at another address
// than the recorded one has the same store if the ids are the same, or if it knows the request that
// waits. If the proxy cannot say, it counts as the same.
func (d *dialer) dialFor(ctx context.Context, proxy string, r lockfile.Record) (*v1.Proxy, error) {
	p, err := d.dial(ctx, proxy)
	if err != nil || sameProxy(r.Proxy, p.Address) {
		return p, err
	}
	if len(r.Leases) == 0 && r.RequestID != "" {
		_, err := p.RequestState(ctx, r.RequestID)
		switch {
		case errors.Is(err, proxyclient.ErrUnknownRequest):
			return nil, elsewhere("request", "does not know it", r.Proxy, p.Address)
		case errors.Is(err, errors.ErrUnsupported):
			err = nil
		}
		return p, err
	}
	if store, err := d.askStore(ctx, p, r.Store); err != nil || store != "" && store != r.Store {
		return nil, cmp.Or(err, elsewhere("lease", "has another store", r.Proxy, p.Address))
	}
	return p, nil
}

// askStore returns the id of a proxy's store, to compare it with a recorded one; "" if there is
// nothing to compare.
func (d *dialer) askStore(ctx context.Context, p *v1.Proxy, recorded string) (string, error) {
	if !isStoreID(recorded) {
		return "", nil
	}
	if p.Store() == "" {
		if _, err := p.Capabilities(ctx); err != nil {
			return "", err
		}
	}
	return p.Store(), nil
}

// isStoreID tells whether store is an id that a proxy told, and not an address.
func isStoreID(store string) bool { return store != "" && !strings.Contains(store, "://") }

// elsewhere is the error for a lease or request that is not of the proxy that was asked.
func elsewhere(what, why, recorded, asked string) error {
	next := ": name its proxy with --proxy"
	if recorded != "" {
		next = ", but of " + proxyclient.Redacted(recorded) + ": leave --proxy out"
	}
	return fmt.Errorf("the %s is not of %s, which %s%s", what, asked, why, next)
}

// dialRecorded is dialFor at the proxy of a record, or at the one that the user named in its place.
func (d *dialer) dialRecorded(ctx context.Context, r lockfile.Record) (*v1.Proxy, error) {
	return d.dialFor(ctx, d.proxyOf(r.Proxy), r)
}

// source returns where TokenFrom gets tokens; nil: there is no TokenFrom. All clients share it. The
// caller holds d.mu.
func (d *dialer) source() (*proxyclient.TokenSource, error) {
	if d.TokenFrom == "" || d.tokens != nil {
		return d.tokens, nil
	}
	tokens, err := tokenfrom.New(d.TokenFrom)
	if err != nil {
		return nil, invalidError{err}
	}
	d.tokens = tokens
	return tokens, nil
}

// identity returns a text that is the same for all tokens of the user; "" without a token.
func (d *dialer) identity(ctx context.Context) (string, error) {
	d.mu.Lock()
	source, err := d.source()
	d.mu.Unlock()
	if err != nil {
		return "", err
	}
	token := ""
	if source != nil {
		token, err = source.Token(ctx)
	} else {
		token, err = d.token(ctx)
	}
	return proxyclient.TokenIdentity(token), err
}

// token reads the token that the proxy asks for; "" is none.
func (d *dialer) token(ctx context.Context) (string, error) {
	if d.TokenFile == "" {
		return "", nil
	}
	token, err := d.pipes.readFile(ctx, d.TokenFile)
	if err != nil {
		return "", invalidf("--token-file: %w", err)
	}
	return strings.TrimSpace(string(token)), nil
}

// open makes a client. The caller holds d.mu.
func (d *dialer) open(ctx context.Context, a address, revive func(context.Context) error) (*proxyclient.Client, error) {
	options := proxyclient.Options{
		URL: a.Address.String(), TokenFile: d.TokenFile, CAFile: d.CAFile, UserAgent: "leasectl/" + d.Version, Revive: revive, Ready: d.listening,
		ReadFile: func(path string) ([]byte, error) { return d.pipes.readFile(ctx, path) },
	}
	var err error
	if a.local == "" { // which asks for no token: getting one may take long
		options.TokenFrom, err = d.source()
	}
	if err == nil && options.TokenFrom == nil {
		options.Token, err = d.token(ctx)
	}
	if err != nil {
		return nil, err
	}
	if readable := a.ClearText(); (options.Token != "" || options.TokenFrom != nil) && readable != "" && !d.warned {
		d.warned = true
		d.report.Notef("the token goes to %s in clear text: write https:// in --proxy if the proxy speaks it", readable)
	}
	if path := a.Socket(); path != "" {
		short, done, err := socket.Short(path)
		if err != nil {
			return nil, err
		}
		d.done = append(d.done, done)
		options.URL = proxyclient.SocketAddress(short).String()
	}
	client, err := proxyclient.New(options)
	if err != nil {
		return nil, invalidError{err}
	}
	return client, nil
}
