// Package dial finds the lease proxy that a command talks to, and keeps a client for it. To dial a
// proxy is to get that client: a local proxy is started if none runs, a token or certificate is read
// from where the user said, even if that is a pipe, and the calls of one run share a connection.
//
// It also knows which proxies are the same: handles and journal entries remember the address of a
// proxy, in one spelling, and the id of its store.
package dial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/leasectl/leasectl/internal/holder/local"
	"github.com/leasectl/leasectl/internal/holder/socket"
	"github.com/leasectl/leasectl/internal/holder/tokenfrom"
	"github.com/leasectl/leasectl/internal/holder/usage"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Options say which lease proxy to talk to, and how.
type Options struct {
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

// Reporter tells the user what a [Dialer] does. Its methods must not block.
type Reporter interface {
	Notef(format string, args ...any)  // news of a run that goes well
	Debugf(format string, args ...any) // each step, for the search for a fault
}

// Dialer makes the clients of one run, one per proxy, so that an acquire and a release in the
// same process share a connection.
type Dialer struct {
	Options
	stateDir string
	report   Reporter
	pipes    pipes // among the files
	Adapter  *v1.Adapter

	mu      sync.Mutex               // guards the rest, also while Dial starts a local proxy
	clients map[string]*v1.Proxy     // by the name of their proxy
	done    []func()                 // called by Close after it has closed the clients
	warned  bool                     // the user was warned of a token in clear text
	tokens  *proxyclient.TokenSource // made by source; nil: not made yet
}

// New returns a Dialer for the clients of a run with the state directory stateDir. The caller calls [Dialer.Close].
func New(o Options, stateDir string, report Reporter) *Dialer {
	return &Dialer{Options: o, stateDir: stateDir, report: report, pipes: pipes{notef: report.Notef}, Adapter: v1.New(stateDir)}
}

// Running returns a new client of a proxy, and does not start a local one.
func (d *Dialer) Running(ctx context.Context, proxy string) (*proxyclient.Client, error) {
	a, err := d.parse(proxy)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open(ctx, a, nil)
}

// Close ends all clients.
func (d *Dialer) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, client := range d.clients {
		client.Close()
	}
	for _, done := range d.done {
		done()
	}
}

// EndTokens ends what gets a token just now.
func (d *Dialer) EndTokens() {
	d.mu.Lock()
	tokens := d.tokens
	d.mu.Unlock()
	if tokens != nil {
		tokens.Close()
	}
}

// ProxyOf returns the proxy to ask about what a handle's record holds or waits for: that of
// [Dialer.Recorded], unless the user named another just now; "" if neither is known.
func (d *Dialer) ProxyOf(r lockfile.Record) (string, error) {
	if r.Proxy == "" || d.Given {
		return d.URL, nil
	}
	return d.Recorded(r)
}

// Noted is [Dialer.ProxyOf] for the proxy in a file of the state directory, such as an entry of
// the journal: nobody else writes there.
func (d *Dialer) Noted(proxy string) string {
	if proxy == "" || d.Given {
		return d.URL
	}
	return proxy
}

// Name returns a proxy's address as a handle remembers it.
func (d *Dialer) Name(proxy string) (string, error) {
	a, err := d.parse(proxy)
	return a.String(), err
}

// StoreOf identifies the store of a proxy: names and generations mean something only within one
// store. It returns the recorded id, else the id that the proxy has told, else the proxy's
// address. A version-1 proxy has no id, so its store counts as two if it has two addresses.
func (d *Dialer) StoreOf(recorded, proxy string) string {
	if recorded != "" {
		return recorded
	}
	name, err := d.Name(proxy)
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

func (d *Dialer) parse(proxy string) (address, error) {
	a, err := parseAddress(proxy, d.stateDir)
	if err != nil {
		return a, usage.Errorf("--proxy %q: %w", leaseapi.Shorten(proxyclient.Redacted(proxy)), err)
	}
	return a, nil
}

// Dial returns the client of a proxy, for the rest of the run. It blocks to start a local proxy
// that does not run. If the local proxy stops later, the client starts it again.
func (d *Dialer) Dial(ctx context.Context, proxy string) (*v1.Proxy, error) {
	a, err := d.parse(proxy)
	if err != nil {
		return nil, err
	}
	asked := proxy == d.URL || !d.Given // else this is about a lease that another proxy granted
	if d.PoolsGiven && a.local == "" && asked {
		return nil, usage.Errorf("--pool goes with --proxy local: %s has its own pools", proxy)
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
	p := &v1.Proxy{Client: client, Address: name, Adapter: d.Adapter}
	d.clients[name] = p
	return p, nil
}

// ensureLocal starts the local proxy of a state directory unless it runs.
func (d *Dialer) ensureLocal(ctx context.Context, dir string) error {
	if err := lockfile.MakeStateDir(dir); err != nil {
		return err
	}
	err := local.Proxy{Dir: dir, Pools: d.Pools, Debugf: d.report.Debugf}.Ensure(ctx)
	if _, wrongPools := errors.AsType[local.PoolsError](err); wrongPools {
		return usage.Mark(err)
	}
	return err
}

// DialFor is Dial for a call about what a record holds or waits for. It is an error if proxy has
// another store: the names would mean other leases there, or nothing. A proxy at another address
// than the recorded one, or with other servers in its list, has the same store if the ids are the same,
// or if it knows the request that waits. If the proxy cannot say, it counts as the same.
func (d *Dialer) DialFor(ctx context.Context, proxy string, r lockfile.Record) (*v1.Proxy, error) {
	p, err := d.Dial(ctx, proxy)
	if err != nil || r.Proxy == p.Address {
		return p, err
	}
	recorded := r.Proxy
	if !d.Sealed(r) {
		recorded = "" // a stranger's record is no reason to ask there
	}
	if len(r.Leases) == 0 && r.RequestID != "" {
		_, err := p.RequestState(ctx, r.RequestID)
		switch {
		case errors.Is(err, proxyclient.ErrUnknownRequest):
			return nil, elsewhere("request", "does not know it", recorded, p.Address)
		case errors.Is(err, errors.ErrUnsupported):
			err = nil
		}
		return p, err
	}
	if err := d.checkStore(ctx, p, r.Store, recorded); err != nil {
		return nil, err
	}
	return p, nil
}

// checkStore returns an error if a proxy has another store than a recorded one, of a lease that the proxy
// recorded granted; "" is none.
func (d *Dialer) checkStore(ctx context.Context, p *v1.Proxy, store, recorded string) error {
	now, err := d.AskStore(ctx, p, store)
	if err == nil && now != "" && now != store {
		err = elsewhere("lease", "has another store", recorded, p.Address)
	}
	return err
}

// Settles returns an error if the answer of a proxy says nothing of a lease that another store granted: of
// the servers in a list, or of one that the user named, another one may hold the lease. A single server with
// another store than it had, such as one that was restarted elsewhere, holds nothing that it granted before:
// fresh. It compares the id in the proxy's last answer with the recorded one.
func (d *Dialer) Settles(p *v1.Proxy, store, recorded string) (fresh bool, err error) {
	switch now := p.Store(); {
	case !IsStoreID(store) || now == "" || now == store:
		return false, nil
	case p.Address == recorded && p.Servers() == 1:
		return true, nil
	case p.Address == recorded:
		return false, fmt.Errorf("the lease is not of the server of %s that answered, which has another store: name the one that granted it with --proxy", p.Address)
	}
	return false, elsewhere("lease", "has another store", recorded, p.Address)
}

// AskStore returns the id of a proxy's store, to compare it with a recorded one; "" if there is
// nothing to compare.
func (d *Dialer) AskStore(ctx context.Context, p *v1.Proxy, recorded string) (string, error) {
	if !IsStoreID(recorded) {
		return "", nil
	}
	if p.Store() == "" {
		if _, err := p.Capabilities(ctx); err != nil {
			return "", err
		}
	}
	return p.Store(), nil
}

// IsStoreID tells whether store is an id that a proxy told, and not an address.
func IsStoreID(store string) bool { return store != "" && !strings.Contains(store, "://") }

// elsewhere is the error for a lease or request that is not of the proxy that was asked.
func elsewhere(what, why, recorded, asked string) error {
	next := ": name its proxy with --proxy"
	if recorded != "" {
		next = ", but of " + proxyclient.Redacted(recorded) + ": leave --proxy out"
	}
	return fmt.Errorf("the %s is not of %s, which %s%s", what, asked, why, next)
}

// DialRecorded is DialFor at the proxy of a record, or at the one that the user named in its place.
func (d *Dialer) DialRecorded(ctx context.Context, r lockfile.Record) (*v1.Proxy, error) {
	proxy, err := d.ProxyOf(r)
	if err != nil {
		return nil, err
	}
	return d.DialFor(ctx, proxy, r)
}

// source returns where TokenFrom gets tokens; nil: there is no TokenFrom. All clients share it. The
// caller holds d.mu.
func (d *Dialer) source() (*proxyclient.TokenSource, error) {
	if d.TokenFrom == "" || d.tokens != nil {
		return d.tokens, nil
	}
	tokens, err := tokenfrom.New(d.TokenFrom)
	if err != nil {
		return nil, usage.Mark(err)
	}
	d.tokens = tokens
	return tokens, nil
}

// Identity returns a text that is the same for all tokens of the user; "" without a token.
func (d *Dialer) Identity(ctx context.Context) (string, error) {
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
func (d *Dialer) token(ctx context.Context) (string, error) {
	if d.TokenFile == "" {
		return "", nil
	}
	token, err := d.pipes.readFile(ctx, d.TokenFile, proxyclient.MaxToken)
	if err != nil {
		return "", usage.Errorf("--token-file: %w", err)
	}
	return strings.TrimSpace(string(token)), nil
}

// open makes a client. The caller holds d.mu.
func (d *Dialer) open(ctx context.Context, a address, revive func(context.Context) error) (*proxyclient.Client, error) {
	options := proxyclient.Options{
		URL: a.Address.String(), TokenFile: d.TokenFile, CAFile: d.CAFile, UserAgent: "leasectl/" + d.Version, Revive: revive,
		ReadFile: func(path string) ([]byte, error) { return d.pipes.readFile(ctx, path, proxyclient.MaxCA) },
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
		return nil, usage.Mark(err)
	}
	return client, nil
}
