package postgres

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
)

// format is the number of the tables' layout. A server refuses a later one.
const format = 1

// database is a [replicated.Database] in PostgreSQL.
type database struct {
	conns
	schema string
	size   atomic.Pointer[size]

	listening struct {
		sync.Mutex
		*conn // nil: there is none
	}
}

// size is how many bytes the tables have, and how many of them are of rows that are not deleted.
type size struct{ total, used int64 }

var _ replicated.Database = (*database)(nil)

// exec is [conns.exec] with the schema for each %s in sql, and the error that package replicated
// wants.
func (d *database) exec(ctx context.Context, sql string) ([][][]byte, error) {
	return noting(d.conns.exec(ctx, "", d.inSchema(sql)))
}

// inSchema puts the schema in place of each %s. It is quoted, since it may be a word of SQL.
func (d *database) inSchema(sql string) string {
	return strings.ReplaceAll(sql, "%s", `"`+d.schema+`"`)
}

// prepared is exec with a statement that executes what prepare has prepared in the session.
func (d *database) prepared(ctx context.Context, prepare, sql string) ([][][]byte, error) {
	return noting(d.conns.exec(ctx, d.inSchema(prepare), sql))
}

// noting adds to an error whether it is [replicated.ErrRefused].
func noting(rows [][][]byte, err error) ([][][]byte, error) {
	if refused(err) {
		err = fmt.Errorf("%w: %w", replicated.ErrRefused, err)
	}
	return rows, err
}

// literal returns a value as a literal of SQL.
func literal(value []byte) string { return `'\x` + hex.EncodeToString(value) + `'::bytea` }

// quoted returns a text as a literal of SQL.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// value decodes a bytea; nil: NULL.
func value(column []byte) ([]byte, error) {
	if column == nil {
		return nil, nil
	}
	digits, ok := bytes.CutPrefix(column, []byte(`\x`))
	if !ok {
		return nil, fmt.Errorf("%.20q is no bytea in hexadecimal form", column)
	}
	v := make([]byte, hex.DecodedLen(len(digits)))
	_, err := hex.Decode(v, digits)
	return v, err
}

// entry decodes a value and its version.
func entry(column, version []byte) (e replicated.Entry, err error) {
	if e.Value, err = value(column); err != nil || e.Value == nil {
		return replicated.Entry{}, err
	}
	e.Version, err = strconv.ParseInt(string(version), 10, 64)
	return e, err
}

// Look implements [replicated.Database].
func (d *database) Look(ctx context.Context) (s replicated.State, err error) {
	rows, err := d.exec(ctx, "SELECT format, leader, term, meta, version FROM %s.store")
	switch {
	case missing(err):
		return s, nil
	case err != nil:
		return s, err
	case len(rows) != 1:
		return s, fmt.Errorf("schema %s: %w: its table store has %d rows, and should have one", d.schema, store.ErrDamaged, len(rows))
	}
	row := rows[0]
	if f := string(row[0]); f != strconv.Itoa(format) {
		return s, fmt.Errorf("%w: schema %s has format %s, and this program knows format %d: use the program that made it", store.ErrOpen, d.schema, f, format)
	}
	leader, errLeader := entry(row[1], row[2])
	meta, errMeta := entry(row[3], row[4])
	return replicated.State{Leader: leader, Meta: meta}, errors.Join(errLeader, errMeta)
}

// Take implements [replicated.Database]. It makes the tables if there are none.
func (d *database) Take(ctx context.Context, leader []byte, seen int64) (meta replicated.Entry, taken bool, err error) {
	condition := "leader IS NULL"
	if seen != 0 {
		condition = fmt.Sprintf("term = %d AND leader IS NOT NULL", seen)
	}
	sql := "UPDATE %s.store SET leader = " + literal(leader) + ", term = term + 1 WHERE " + condition + " RETURNING meta, version"
	rows, err := d.exec(ctx, sql)
	switch {
	case missing(err) && seen != 0: // that leader's entry is gone
		return meta, false, nil
	case missing(err):
		if err := d.make(ctx); err != nil {
			return meta, false, fmt.Errorf("make the tables: %w", err)
		}
		rows, err = d.exec(ctx, sql)
	}
	if err != nil || len(rows) == 0 {
		return meta, false, err
	}
	meta, err = entry(rows[0][0], rows[0][1])
	return meta, err == nil, err
}

// make makes the tables. Servers that start at the same moment make them one after the other, and
// all but the first find them there. Whoever may not make a schema needs one that is there.
func (d *database) make(ctx context.Context) error {
	rows, err := d.exec(ctx, "SELECT to_regnamespace('%s') IS NULL")
	if err != nil {
		return err
	}
	schema := ""
	if string(rows[0][0]) == "t" {
		schema = "CREATE SCHEMA IF NOT EXISTS %s;"
	}
	_, err = d.exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('leasectl %s', 0));`+schema+`
CREATE TABLE IF NOT EXISTS %s.store (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  format integer NOT NULL,
  leader bytea,
  term bigint NOT NULL DEFAULT 0,
  meta bytea,
  version bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
CREATE TABLE IF NOT EXISTS %s.records (
  number bigint PRIMARY KEY,
  value bytea NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE TABLE IF NOT EXISTS %s.standby (
  name text PRIMARY KEY,
  value bytea NOT NULL,
  version bigint NOT NULL
);
INSERT INTO %s.store (format) VALUES (`+strconv.Itoa(format)+`) ON CONFLICT DO NOTHING`)
	return err
}

// Keep implements [replicated.Database].
func (d *database) Keep(ctx context.Context, leader []byte) (meta int64, kept bool, err error) {
	rows, err := d.exec(ctx, "UPDATE %s.store SET term = term + 1 WHERE leader = "+literal(leader)+" RETURNING meta, version")
	if err != nil || len(rows) == 0 {
		return 0, false, err
	}
	e, err := entry(rows[0][0], rows[0][1])
	return e.Version, err == nil, err
}

// channel is where servers are told of the end of a lead.
func (d *database) channel() string { return "leasectl_" + d.schema }

// Resign implements [replicated.Database].
func (d *database) Resign(ctx context.Context, leader []byte) error {
	_, err := d.exec(ctx, "WITH gone AS (UPDATE %s.store SET leader = NULL, term = term + 1 WHERE leader = "+literal(leader)+
		" RETURNING 1) SELECT pg_notify('"+d.channel()+"', '') FROM gone")
	return err
}

// commitSQL is the statement of a commit. It is prepared once in each session, since planning it
// takes as long as all the rest. Without the fence, the other parts have nothing to do.
const commitSQL = `PREPARE leasectl_commit (bigint, bytea, bytea, bigint[], bigint[], bytea[]) AS
WITH fence AS (
  UPDATE %s.store SET version = version + 1, meta = $3
  WHERE version = $1 AND leader = $2 AND ($1 > 0 OR meta IS NULL) RETURNING version
), gone AS (
  DELETE FROM %s.records WHERE number = ANY ($4) AND EXISTS (SELECT FROM fence)
), put AS (
  INSERT INTO %s.records (number, value) SELECT r.number, r.value FROM fence, unnest($5, $6) AS r (number, value)
  ON CONFLICT (number) DO UPDATE SET value = EXCLUDED.value
) SELECT version FROM fence`

// Commit implements [replicated.Database].
func (d *database) Commit(ctx context.Context, c *replicated.Commit) (version int64, done bool, err error) {
	var gone, put, values []byte
	for _, w := range c.Writes {
		if w.Value == nil {
			gone = strconv.AppendUint(append(gone, ','), w.Number, 10)
			continue
		}
		put = strconv.AppendUint(append(put, ','), w.Number, 10)
		values = append(values, `,"\\x`...)
		values = append(hex.AppendEncode(values, w.Value), '"')
	}
	rest := func(list []byte) []byte { return list[min(1, len(list)):] } // without the first comma
	sql := fmt.Sprintf("EXECUTE leasectl_commit (%d, %s, %s, '{%s}', '{%s}', '{%s}')",
		c.Version, literal(c.Leader), literal(c.Meta), rest(gone), rest(put), rest(values))
	rows, err := d.prepared(ctx, commitSQL, sql)
	if err != nil || len(rows) == 0 {
		return 0, false, err
	}
	version, err = strconv.ParseInt(string(rows[0][0]), 10, 64)
	return version, err == nil, err
}

// pageSize is how many records Read asks for at a time.
const pageSize = 1000

// Read implements [replicated.Database].
func (d *database) Read(ctx context.Context, from uint64) (page []replicated.Record, more bool, err error) {
	rows, err := d.exec(ctx, fmt.Sprintf("SELECT number, value FROM %%s.records WHERE number >= %d ORDER BY number LIMIT %d", from, pageSize))
	if err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		number, errNumber := strconv.ParseUint(string(row[0]), 10, 64)
		v, errValue := value(row[1])
		if err := errors.Join(errNumber, errValue); err != nil {
			return nil, false, fmt.Errorf("%w: a row of records: %w", replicated.ErrRefused, err)
		}
		page = append(page, replicated.Record{Number: number, Value: v})
	}
	return page, len(page) == pageSize, nil
}

// Standbys implements [replicated.Database].
func (d *database) Standbys(ctx context.Context, own *replicated.Standby) (all []replicated.Standby, err error) {
	sql := "SELECT name, value, version FROM %s.standby"
	if own != nil {
		sql = fmt.Sprintf("INSERT INTO %%s.standby AS s (name, value, version) VALUES (%s, %s, 1) "+
			"ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value, version = s.version + 1; ", quoted(own.Name), literal(own.Value)) + sql
	}
	rows, err := d.exec(ctx, sql)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		e, err := entry(row[1], row[2])
		if err != nil {
			return nil, err
		}
		all = append(all, replicated.Standby{Name: string(row[0]), Value: e.Value, Version: e.Version})
	}
	return all, nil
}

// Leave implements [replicated.Database].
func (d *database) Leave(ctx context.Context, name string, version int64) error {
	sql := "DELETE FROM %s.standby WHERE name = " + quoted(name)
	if version != 0 {
		sql += fmt.Sprintf(" AND version = %d", version)
	}
	_, err := d.exec(ctx, sql)
	return err
}

// listenPause is how long Wait pauses after its connection broke, so that it does not spin.
const listenPause = 100 * time.Millisecond

// Wait implements [replicated.Database] with LISTEN, on a connection of its own. Without a
// connection it only waits: the next look says what is wrong.
func (d *database) Wait(ctx context.Context, wait time.Duration) error {
	short, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	l := &d.listening
	l.Lock()
	defer l.Unlock()
	if l.conn == nil {
		c, err := d.listen(short)
		if err != nil {
			<-short.Done()
			return context.Cause(ctx)
		}
		l.conn = c
		return nil // somebody may have resigned before the server listened: look again
	}
	err := l.conn.WaitForNotification(short)
	if err != nil && short.Err() == nil || l.conn.IsClosed() {
		hangUp(l.conn)
		l.conn = nil
		return replicated.Sleep(ctx, min(wait, listenPause))
	}
	return context.Cause(ctx)
}

// listen returns a connection that is told when somebody resigns.
func (d *database) listen(ctx context.Context) (*conn, error) {
	c, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, "LISTEN "+d.channel()).ReadAll(); err != nil {
		hangUp(c)
		return nil, err
	}
	return c, nil
}

// hush closes the connection of Wait.
func (d *database) hush() {
	l := &d.listening
	l.Lock()
	defer l.Unlock()
	if l.conn != nil {
		hangUp(l.conn)
		l.conn = nil
	}
}

// measureEvery is how often the leader asks how large the tables are.
const measureEvery = 30 * time.Second

// Maintain implements [replicated.Database]. It measures the tables. PostgreSQL itself makes room
// in them (autovacuum).
func (d *database) Maintain(ctx context.Context) {
	d.hush()
	for {
		d.measure(ctx)
		if replicated.Sleep(ctx, measureEvery) != nil {
			return
		}
	}
}

// measure notes the size of the tables. The next commit reports any trouble.
func (d *database) measure(ctx context.Context) {
	var rows [][][]byte
	err := replicated.Within(ctx, d.ttl/4, func(ctx context.Context) (err error) {
		rows, err = d.exec(ctx, `SELECT coalesce(sum(bytes), 0)::bigint, coalesce(sum(bytes * live / greatest(live + dead, 1)), 0)::bigint
FROM (SELECT pg_total_relation_size(relid)::numeric AS bytes, n_live_tup AS live, n_dead_tup AS dead FROM pg_stat_user_tables WHERE schemaname = `+quoted(d.schema)+`) AS t`)
		return err
	})
	if err != nil {
		return
	}
	var s size
	if _, err := fmt.Sscan(string(rows[0][0])+" "+string(rows[0][1]), &s.total, &s.used); err == nil {
		d.size.Store(&s)
	}
}

// Advice implements [replicated.Database].
func (d *database) Advice(err error) string {
	if errors.Is(err, errReadOnly) {
		return "PostgreSQL takes no writes, so that nothing is granted or released: no host of --data is the primary: promote one, or name the primary, too"
	}
	switch codeOf(err) {
	case codeReadOnly:
		return "PostgreSQL takes no writes, so that nothing is granted or released: its server has become a standby: name all servers in --data, so that the primary is found"
	case codeForbidden:
		return fmt.Sprintf("our user of PostgreSQL lacks a right, so that nothing is granted or released: CREATE SCHEMA %[1]s AUTHORIZATION our user, before the first start; "+
			"or GRANT USAGE ON SCHEMA %[1]s, and SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s, to our user", d.schema)
	case codeDiskFull:
		return "no space: the disk of PostgreSQL is full, so that nothing is granted or released: make room on it"
	case codeConnections:
		return "PostgreSQL takes no more connections, so that nothing may be granted or released: raise max_connections, or reserve some for our user: a server needs four while PostgreSQL answers, some more while it hangs"
	case codePassword, codeNoUser:
		return "PostgreSQL refuses our user, so that nothing is granted or released: look at the password (PGPASSFILE, ~/.pgpass), and at pg_hba.conf"
	case codeNoDatabase:
		return "PostgreSQL has no such database, so that nothing is granted or released: CREATE DATABASE, or name another in --data"
	}
	return ""
}
