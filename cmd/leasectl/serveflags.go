package main

import (
	"net"
	"time"

	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/internal/holder/local"
	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver"
)

// defaultListen is the address that serve listens on without --listen and --socket.
const defaultListen = "127.0.0.1:8370"

type serveOptions struct {
	listen    string
	socket    string
	config    string
	data      string
	database  databaseOptions
	auth      string
	tokens    string
	logFormat string
	maxWait   time.Duration
	aging     time.Duration
	insecure  bool
	onlyCheck bool
	host      []string
	tlsCert   string
	tlsKey    string
	localOf   string        // the state directory whose local proxy this is
	localIdle time.Duration // idle time after which a local proxy stops; set by tests
}

func (o *serveOptions) bind(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "listen", "", "address to listen on, port 0 for a free one (default "+defaultListen+", or none with --socket)")
	flags.StringVar(&o.socket, "socket", "", "path of a Unix socket to listen on")
	flags.StringVar(&o.config, "config", "", "YAML file with the pools, as Boskos deployments have it")
	flags.StringVar(&o.data, "data", "", "directory that keeps the leases over restarts, or etcd://HOST:PORT,…/PREFIX, or postgres://USER@HOST/DB (default: in memory)")
	o.database.bind(flags)
	flags.Var(durationValue(&o.maxWait, proxyserver.DefaultMaxWait, time.Second, 7*24*time.Hour), "max-wait", "how long an acquire without a request id may wait")
	flags.Var(durationValue(&o.aging, pool.PriorityAging, 0, maxAging), "priority-aging", "how much waiting a step of --priority is worth; 0: all of a higher priority go first")
	flags.StringVar(&o.auth, "auth", "", "YAML file that says who may ask: tokens, and issuers of the tokens that CI jobs have")
	flags.StringVar(&o.tokens, "tokens", "", "file with the tokens that clients must show one of, one a line; also beside --auth")
	flags.Var(choiceValue(&o.logFormat, "text", "text", "json"), "log-format", "how log lines are written: text or json")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "PEM file with the certificate for https, and those up to its authority")
	flags.StringVar(&o.tlsKey, "tls-key", "", "PEM file with the certificate's key")
	flags.BoolVar(&o.insecure, "insecure", false, "allow an address other than loopback without tokens and TLS: everybody who reaches it can take and end leases")
	flags.BoolVar(&o.onlyCheck, "check", false, "read all settings and files as a start or a reload would, say what is wrong with them, and end")
	flags.Var(hostsValue(&o.host), "host", "names, separated by commas, under which clients reach this server: one on loopback without tokens answers to no others than these, localhost and the name in --listen")
	flags.StringVar(&o.localOf, "local-of", "", "")
	flags.Lookup("local-of").Hidden = true
	flags.Var(durationValue(&o.localIdle, local.Idle, 0, time.Hour), "local-idle", "")
	flags.Lookup("local-idle").Hidden = true
}

// maxAging is the most that a step of priority may be worth: more is a typing error.
const maxAging = 30 * 24 * time.Hour

// priorityAging returns what [proxyserver.Options.PriorityAging] is.
func (o *serveOptions) priorityAging() time.Duration {
	if o.aging == 0 {
		return -1
	}
	return o.aging
}

// hosts returns the names in --host, --listen and --advertise, which clients may use for the
// server.
func (o *serveOptions) hosts() (hosts []string) {
	hosts = append(hosts, o.host...)
	if host, _, err := net.SplitHostPort(o.listen); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	if host := o.database.host(); host != "" {
		hosts = append(hosts, host)
	}
	return hosts
}

// check sets the default of --listen. It refuses an address that is not on loopback, since
// strangers may reach it, unless tokens and TLS protect it or --insecure allows it. It also refuses
// a TLS certificate or key without the other.
func (o *serveOptions) check() error {
	if o.listen == "" && o.socket == "" {
		o.listen = defaultListen
	}
	if (o.tlsCert == "") != (o.tlsKey == "") {
		return usagef("--tls-cert and --tls-key go together: the certificate and its key")
	}
	if o.listen == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(o.listen)
	if err != nil || port == "" { // net would choose any port for ""
		return usagef("--listen %q: want HOST:PORT, such as 127.0.0.1:0", o.listen)
	}
	ip := net.ParseIP(host)
	if o.insecure || host == "localhost" || ip != nil && ip.IsLoopback() || o.asksForTokens() && o.tlsCert != "" {
		return nil
	}
	return usagef("--listen %q: not a loopback address: everybody who reaches it could take and end leases: add --auth or --tokens, --tls-cert and --tls-key, or --insecure if that is meant", o.listen)
}

// asksForTokens tells whether clients must show a token.
func (o *serveOptions) asksForTokens() bool { return o.auth != "" || o.tokens != "" }

// urlOf returns the URL under which clients reach a listener.
func (o *serveOptions) urlOf(l net.Listener) string {
	switch {
	case l.Addr().Network() != "tcp":
		return "unix://" + o.socket
	case o.tlsCert != "":
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}
