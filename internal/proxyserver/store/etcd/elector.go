package etcd

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
)

// Options say where etcd is, and how this server takes part. Only URL must be set.
type Options struct {
	URL       string        // as [ParseURL] takes it
	Advertise string        // where clients reach this server
	TTL       time.Duration // of the lead; zero: [replicated.DefaultTTL]
	NoCompact bool          // somebody else compacts etcd's history

	CAFile            string // PEM file; its certificates are trusted instead of the system's
	CertFile, KeyFile string // PEM files of this server's certificate for etcd
	CredentialsFile   string // holds user:password
	// ReadFile reads these files. A file is read whenever it is needed, so that it may be
	// replaced. ReadFile must not block. Nil: [os.ReadFile].
	ReadFile func(file string) ([]byte, error)

	Log *slog.Logger // nil: no log
}

// Elector is a [store.Election] in etcd. [Open] makes one.
type Elector struct {
	*replicated.Elector
	*database
}

var (
	_ store.Election = (*Elector)(nil)
	_ store.Measurer = (*Elector)(nil)
)

// Bounds of one transaction, sizes in bytes. etcd takes 128 operations and 1.5 MiB, unless
// its operator set other bounds.
const (
	maxOperations = 128
	maxRecord     = 512 << 10
	maxBytes      = 1 << 20
)

// Open returns an elector. It checks that the files that it needs can be read, but does not
// connect to etcd. The caller must close the elector.
func Open(o Options) (*Elector, error) {
	a, err := ParseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.ReadFile == nil {
		o.ReadFile = os.ReadFile
	}
	var s *secure
	if a.TLS {
		if s, err = newSecure(o.CAFile, o.CertFile, o.KeyFile, o.ReadFile); err != nil {
			return nil, err
		}
	}
	o.TTL = cmp.Or(o.TTL, replicated.DefaultTTL)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	db := &database{gateway: newGateway(a, s, o.CredentialsFile, o.ReadFile), prefix: a.Prefix}
	if db.credentials != "" {
		if _, _, err := db.readCredentials(); err != nil {
			return nil, fmt.Errorf("read the credentials of etcd: %w", err)
		}
	}
	db.upkeep = newUpkeep(db, o)
	return &Elector{database: db, Elector: replicated.New(replicated.Options{
		Database: db, Words: replicated.Words{Database: "etcd", Store: a.Prefix, Erase: "delete all keys under the prefix"},
		Advertise: o.Advertise, TTL: o.TTL, Log: o.Log,
		Poll:   min(o.TTL/20, 200*time.Millisecond), // a look is cheap
		Bounds: replicated.Bounds{Writes: maxOperations - 1, Bytes: maxBytes, Record: maxRecord},
	})}, nil
}

// Size implements [store.Measurer].
func (e *Elector) Size() (total, used int64) {
	s := e.upkeep.size.Load()
	return s.Size, s.InUse
}

// Close implements [store.Election].
func (e *Elector) Close() error {
	defer e.close()
	return e.Elector.Close()
}
