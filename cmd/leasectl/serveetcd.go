package main

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/proxyclient"
	"github.com/leasectl/leasectl/proxyserver/store"
	"github.com/leasectl/leasectl/proxyserver/store/etcd"
	"github.com/leasectl/leasectl/proxyserver/store/replicated"
)

// etcdOptions are the flags of serve for leases that are kept in etcd.
type etcdOptions struct {
	advertise   string
	leaderTTL   time.Duration
	ca          string
	cert        string
	key         string
	credentials string
	noCompact   bool
}

func (o *etcdOptions) bind(flags *pflag.FlagSet) {
	flags.StringVar(&o.advertise, "advertise", "", "URL under which clients reach this server; with etcd, the others name it while it leads")
	flags.Var(durationValue(&o.leaderTTL, replicated.DefaultTTL, time.Second, time.Minute), "leader-ttl", "how long a server leads on that does not reach etcd; another one takes over after it")
	flags.StringVar(&o.ca, "data-ca", "", "PEM file with the authority of etcd's certificates (default: the system's)")
	flags.StringVar(&o.cert, "data-cert", "", "PEM file with this server's certificate for etcd")
	flags.StringVar(&o.key, "data-key", "", "PEM file with the key of --data-cert")
	flags.StringVar(&o.credentials, "data-credentials", "", "file that holds user:password for etcd")
	flags.BoolVar(&o.noCompact, "no-compact", false, "leave etcd's history to somebody else who compacts it")
}

// check refuses flags for etcd if data is no etcd URL, and a certificate or key without the other.
func (o *etcdOptions) check(data string, flags *pflag.FlagSet) error {
	if !etcd.IsURL(data) {
		for _, name := range []string{"advertise", "leader-ttl", "data-ca", "data-cert", "data-key", "data-credentials", "no-compact"} {
			if flags.Changed(name) {
				return usagef("--%s needs --data etcd://HOST:PORT,…/PREFIX", name)
			}
		}
		return nil
	}
	address, err := etcd.ParseURL(data)
	if err != nil {
		return usagef("--data: %v", err)
	}
	if !address.TLS && (o.ca != "" || o.cert != "" || o.key != "") {
		return usagef("--data-ca, --data-cert and --data-key need --data etcds://…")
	}
	if (o.cert == "") != (o.key == "") {
		return usagef("--data-cert and --data-key go together: the certificate and its key")
	}
	if o.advertise == "" {
		return nil
	}
	return checkAdvertised(o.advertise)
}

// checkAdvertised refuses a value that is not one URL, or has a user or a password in it, since
// everybody who asks is told the URL.
func checkAdvertised(advertised string) error {
	u, err := proxyclient.ParseURL(advertised)
	switch {
	case err != nil && !strings.Contains(advertised, ","):
		return usagef("--advertise: %v", err)
	case err != nil, u.Scheme == "unix", !strings.Contains(advertised, "://"): // only --proxy may be a list, a socket or HOST:PORT
		return usagef("--advertise: want one URL, of this server: http://HOST or https://HOST")
	case u.User != nil:
		return usagef("--advertise: want a URL without a user or a password: everybody who asks is told it")
	}
	return nil
}

// host returns the host in --advertise, which clients use for the server; "" if there is none.
func (o *etcdOptions) host() string {
	u, err := proxyclient.ParseURL(o.advertise)
	if o.advertise == "" || err != nil {
		return ""
	}
	return u.Hostname()
}

// files returns the files for etcd, which are read whenever they are needed.
func (o *etcdOptions) files() []string {
	return slices.DeleteFunc([]string{o.ca, o.cert, o.key, o.credentials}, func(file string) bool { return file == "" })
}

// open returns this server's part in the election of a leader.
func (o *etcdOptions) open(data string, readFile func(string) ([]byte, error), log *slog.Logger) (store.Election, error) {
	return etcd.Open(etcd.Options{
		URL: data, Advertise: o.advertise, TTL: o.leaderTTL, NoCompact: o.noCompact,
		CAFile: o.ca, CertFile: o.cert, KeyFile: o.key, CredentialsFile: o.credentials, ReadFile: readFile, Log: log,
	})
}
