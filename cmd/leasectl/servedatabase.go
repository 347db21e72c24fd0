package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/internal/proxyserver"
	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd"
	"github.com/leasectl/leasectl/internal/proxyserver/store/postgres"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
	"github.com/leasectl/leasectl/proxyclient"
)

// databaseOptions are the flags of serve for leases that several servers keep in a database: etcd
// or PostgreSQL.
type databaseOptions struct {
	advertise string
	leaderTTL time.Duration

	// Of PostgreSQL.
	schema string

	// Of etcd.
	ca          string
	cert        string
	key         string
	credentials string
	noCompact   bool
}

// etcdOnly are flags that only etcd has, with what PostgreSQL has instead.
var etcdOnly = [][2]string{
	{"data-ca", "sslrootcert in the URL"}, {"data-cert", "sslcert in the URL"}, {"data-key", "sslkey in the URL"},
	{"data-credentials", "a password file (PGPASSFILE, or passfile in the URL)"}, {"no-compact", "autovacuum"},
}

func (o *databaseOptions) bind(flags *pflag.FlagSet) {
	flags.StringVar(&o.advertise, "advertise", "", "URL under which clients reach this server; with etcd or PostgreSQL, the others name it while it leads")
	flags.Var(durationValue(&o.leaderTTL, replicated.DefaultTTL, time.Second, time.Minute), "leader-ttl", "how long a server leads on that does not reach etcd or PostgreSQL; another one takes over after it")
	flags.StringVar(&o.schema, "data-schema", postgres.DefaultSchema, "schema of the tables in PostgreSQL, which the first server makes")
	flags.StringVar(&o.ca, "data-ca", "", "PEM file with the authority of etcd's certificates (default: the system's)")
	flags.StringVar(&o.cert, "data-cert", "", "PEM file with this server's certificate for etcd")
	flags.StringVar(&o.key, "data-key", "", "PEM file with the key of --data-cert")
	flags.StringVar(&o.credentials, "data-credentials", "", "file that holds user:password for etcd")
	flags.BoolVar(&o.noCompact, "no-compact", false, "leave etcd's history to somebody else who compacts it")
}

// check refuses flags for a database if data is no URL of it, and a certificate or key without the
// other.
func (o *databaseOptions) check(data string, flags *pflag.FlagSet) error {
	if flags.Changed("data-schema") && !postgres.IsURL(data) {
		return usagef("--data-schema needs --data postgres://USER@HOST/DB")
	}
	var err error
	switch {
	case postgres.IsURL(data):
		err = o.checkPostgres(data, flags)
	case etcd.IsURL(data):
		err = o.checkEtcd(data, flags)
	default:
		for _, name := range []string{"advertise", "leader-ttl"} {
			if flags.Changed(name) {
				return usagef("--%s needs --data etcd://HOST:PORT,…/PREFIX or postgres://USER@HOST/DB", name)
			}
		}
		for _, only := range etcdOnly {
			if flags.Changed(only[0]) {
				return usagef("--%s needs --data etcd://HOST:PORT,…/PREFIX", only[0])
			}
		}
		return nil
	}
	if err != nil || o.advertise == "" {
		return err
	}
	return checkAdvertised(o.advertise)
}

func (o *databaseOptions) checkPostgres(data string, flags *pflag.FlagSet) error {
	for _, only := range etcdOnly {
		if flags.Changed(only[0]) {
			return usagef("--%s is for etcd: PostgreSQL has %s instead", only[0], only[1])
		}
	}
	if err := postgres.CheckURL(data); err != nil {
		return usagef("--data: %v", err)
	}
	if err := postgres.CheckSchema(o.schema); err != nil {
		return usagef("--data-schema %v", err)
	}
	return nil
}

func (o *databaseOptions) checkEtcd(data string, flags *pflag.FlagSet) error {
	address, err := etcd.ParseURL(data)
	switch {
	case err != nil:
		return usagef("--data: %v", err)
	case !address.TLS && (o.ca != "" || o.cert != "" || o.key != ""):
		return usagef("--data-ca, --data-cert and --data-key need --data etcds://…")
	case (o.cert == "") != (o.key == ""):
		return usagef("--data-cert and --data-key go together: the certificate and its key")
	}
	return nil
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
func (o *databaseOptions) host() string {
	u, err := proxyclient.ParseURL(o.advertise)
	if o.advertise == "" || err != nil {
		return ""
	}
	return u.Hostname()
}

// files returns the files for etcd, which are read whenever they are needed.
func (o *databaseOptions) files() []string {
	return slices.DeleteFunc([]string{o.ca, o.cert, o.key, o.credentials}, func(file string) bool { return file == "" })
}

// openData opens the store that --data names, or this server's part in the election of a leader. Without
// --data leases stay in memory.
func (o *serveOptions) openData(options *proxyserver.Options, readEtcdFile func(string) ([]byte, error)) (err error) {
	db, log := &o.database, options.Log
	switch {
	case o.data == "":
	case postgres.IsURL(o.data):
		options.Election, err = postgres.Open(postgres.Options{URL: o.data, Schema: db.schema, Advertise: db.advertise, TTL: db.leaderTTL, Log: log})
	case etcd.IsURL(o.data):
		options.Election, err = etcd.Open(etcd.Options{
			URL: o.data, Advertise: db.advertise, TTL: db.leaderTTL, NoCompact: db.noCompact,
			CAFile: db.ca, CertFile: db.cert, KeyFile: db.key, CredentialsFile: db.credentials, ReadFile: readEtcdFile, Log: log,
		})
	default:
		addProcessor()
		options.Store, err = bolt.Open(o.data)
	}
	return err
}
