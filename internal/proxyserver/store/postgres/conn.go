package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// conns are connections to the database. Safe for concurrent use.
type conns struct {
	url string
	ttl time.Duration

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

// conn is one connection.
type conn struct {
	*pgconn.PgConn
	warning  string // that PostgreSQL gave since the statement began
	prepared bool   // the session has prepared the statement of a commit
}

// maxIdle is how many connections are kept that nobody uses: for commits, for the leader's
// entry, and for the rest.
const maxIdle = 3

// dial connects to the first host of the URL that takes writes. The URL, and the files that it and
// the environment name, are read anew, so that passwords and certificates may change.
func (p *conns) dial(ctx context.Context) (*conn, error) {
	config, err := pgconn.ParseConfig(p.url)
	if err != nil {
		return nil, err
	}
	c := new(conn)
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			c.warning = n.Message
		}
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "leasectl"
	}
	// A host that is down must leave time for the next.
	share := p.ttl / 4 / time.Duration(len(config.Fallbacks)+1)
	if config.ConnectTimeout == 0 || config.ConnectTimeout > share && len(config.Fallbacks) > 0 {
		config.ConnectTimeout = max(share, 100*time.Millisecond)
	}
	asked := config.ValidateConnect
	config.ValidateConnect = func(ctx context.Context, pg *pgconn.PgConn) error {
		if asked != nil {
			if err := asked(ctx, pg); err != nil {
				return err
			}
		}
		return p.prepare(ctx, pg)
	}
	if c.PgConn, err = pgconn.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	return c, nil
}

// errReadOnly is the error of a database that takes no writes.
var errReadOnly = errors.New("this server of PostgreSQL stands by, and takes no writes")

// prepare sets what a session needs, whatever the database has: nothing may block or be blocked for
// as long as a TTL, and a commit must be durable.
func (p *conns) prepare(ctx context.Context, pg *pgconn.PgConn) error {
	quarter := (p.ttl / 4).Milliseconds()
	results, err := pg.Exec(ctx, fmt.Sprintf(`SET statement_timeout = %[2]d; SET lock_timeout = %[1]d;
SET idle_in_transaction_session_timeout = %[2]d; SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off; SET bytea_output = hex; SET standard_conforming_strings = on; SET jit = off;
SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('idle_session_timeout', 'transaction_timeout');
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
SELECT pg_backend_pid(), pg_is_in_recovery()`, quarter, 2*quarter)).ReadAll()
	if err != nil {
		return fmt.Errorf("prepare a connection: %w", err)
	}
	row := results[len(results)-1].Rows[0]
	switch {
	case string(row[0]) != fmt.Sprint(pg.PID()):
		return fmt.Errorf("%w: a pooler, such as pgbouncer, is between this server and PostgreSQL, and keeps neither the settings of a session nor LISTEN: --data must name PostgreSQL itself", store.ErrOpen)
	case string(row[1]) == "t":
		return errReadOnly
	}
	return nil
}

// take returns a connection that nobody else uses.
func (p *conns) take(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	return p.dial(ctx)
}

// put takes a connection back.
func (p *conns) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) == maxIdle || c.IsClosed() {
		hangUp(c)
		return
	}
	p.idle = append(p.idle, c)
}

// drop closes all idle connections: they lead to a server that is gone, or takes no writes.
func (p *conns) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		hangUp(c)
	}
	p.idle = nil
}

func (p *conns) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop()
}

// hangUp closes a connection without waiting for its other end.
func hangUp(c *conn) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(done)
}

// exec carries out statements in one transaction, sent as one message, and returns the rows of the
// last one. A session first carries out prepare, once, unless it is empty. After an error the
// statements may have been carried out, unless it is [refused].
func (p *conns) exec(ctx context.Context, prepare, sql string) ([][][]byte, error) {
	c, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	if prepare != "" && !c.prepared {
		if _, err = c.Exec(ctx, prepare).ReadAll(); err == nil {
			c.prepared = true
		}
	}
	c.warning = ""
	var results []*pgconn.Result
	if err == nil {
		results, err = c.Exec(ctx, sql).ReadAll()
	}
	switch code := codeOf(err); {
	case err != nil && (code == "" || c.IsClosed() || code == codeReadOnly):
		hangUp(c)
		p.drop()
		return nil, err
	case err == nil && c.warning != "":
		// As after a commit whose wait for a standby was broken off: it is not durable there.
		hangUp(c)
		return nil, fmt.Errorf("PostgreSQL answered with a warning: %s", c.warning)
	}
	p.put(c)
	if err != nil {
		return nil, err
	}
	return results[len(results)-1].Rows, nil
}

// Codes of PostgreSQL's errors (its manual, appendix A).
const (
	codeReadOnly    = "25006"
	codeForbidden   = "42501"
	codeNoTable     = "42P01"
	codeNoSchema    = "3F000"
	codeNoDatabase  = "3D000"
	codeDiskFull    = "53100"
	codeConnections = "53300"
	codePassword    = "28P01"
	codeNoUser      = "28000"
)

// codeOf returns the code of an error that PostgreSQL sent; else "".
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// missing reports whether err says that the tables are not there.
func missing(err error) bool {
	code := codeOf(err)
	return code == codeNoTable || code == codeNoSchema
}

// refused reports whether err says that PostgreSQL did not carry a statement out, and would refuse
// the same one again. A right may be granted later.
func refused(err error) bool {
	code := codeOf(err)
	return len(code) == 5 && code != codeForbidden && (slices.Contains([]string{"22", "23", "42", "54"}, code[:2]) || code == codeNoSchema)
}
