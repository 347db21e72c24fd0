package postgres

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
)

// Options say where the database is, and how this server takes part. Only URL must be set.
type Options struct {
	URL       string        // as [CheckURL] takes it
	Schema    string        // of the tables, as [CheckSchema] takes it; empty: [DefaultSchema]
	Advertise string        // where clients reach this server
	TTL       time.Duration // of the lead; zero: [replicated.DefaultTTL]
	Log       *slog.Logger  // nil: no log
}

// Elector is a [store.Election] in PostgreSQL. [Open] makes one.
type Elector struct {
	*replicated.Elector
	database *database
}

var (
	_ store.Election = (*Elector)(nil)
	_ store.Measurer = (*Elector)(nil)
)

// Bounds of one transaction, sizes in bytes. PostgreSQL would take more, but a statement must be
// done well within the TTL.
var bounds = replicated.Bounds{Writes: 1000, Bytes: 1 << 20, Record: 512 << 10}

// Open returns an elector. It does not connect to PostgreSQL. The caller must close the elector.
func Open(o Options) (*Elector, error) {
	if err := CheckURL(o.URL); err != nil {
		return nil, err
	}
	o.Schema = cmp.Or(o.Schema, DefaultSchema)
	if err := CheckSchema(o.Schema); err != nil {
		return nil, err
	}
	o.TTL = cmp.Or(o.TTL, replicated.DefaultTTL)
	db := &database{conns: conns{url: o.URL, ttl: o.TTL}, schema: o.Schema}
	db.size.Store(&size{})
	return &Elector{database: db, Elector: replicated.New(replicated.Options{
		Database: db, Words: replicated.Words{Database: "PostgreSQL", Store: "schema " + o.Schema, Erase: "DROP SCHEMA " + o.Schema + " CASCADE"},
		Advertise: o.Advertise, TTL: o.TTL, Log: o.Log, Bounds: bounds,
		Poll: o.TTL / 10, // a look is cheap; LISTEN makes a graceful end known at once
	})}, nil
}

// Size implements [store.Measurer]: the bytes of the tables, and those of them in use.
func (e *Elector) Size() (total, used int64) {
	s := e.database.size.Load()
	return s.total, s.used
}

// Close implements [store.Election].
func (e *Elector) Close() error {
	err := e.Elector.Close()
	e.database.hush()
	e.database.close()
	return err
}
