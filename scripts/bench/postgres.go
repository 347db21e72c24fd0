package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasectl/leasectl/internal/proxyserver/store/postgres/pgtest"
)

// startPostgres starts a PostgreSQL that is durable, on loopback, without a standby.
func startPostgres() (*pgtest.Cluster, error) {
	return pgtest.New("-c", "fsync=on", "-c", "full_page_writes=on")
}

// lacksPostgres says what to install if there is no PostgreSQL; empty if there is one.
func lacksPostgres() string {
	if pgtest.Lack() != nil {
		return "install postgresql"
	}
	return ""
}

// barePostgres commits to PostgreSQL, with a prepared statement.
type barePostgres struct {
	conn    *pgconn.PgConn
	version int
}

func newBarePostgres(ctx context.Context, url string) (*barePostgres, error) {
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "CREATE TABLE bare_meta (nonce text, version bigint) WITH (fillfactor = 10); INSERT INTO bare_meta VALUES ('nonce', 0);"+
		"CREATE TABLE bare (key text PRIMARY KEY, value text)").ReadAll()
	if err == nil {
		_, err = conn.Prepare(ctx, "commit", `WITH fence AS (UPDATE bare_meta SET version = version + 1 WHERE nonce = 'nonce' AND version = $1 RETURNING 1),
gone AS (DELETE FROM bare WHERE key = ANY ($2) AND EXISTS (SELECT FROM fence)),
put AS (INSERT INTO bare SELECT unnest($3::text[]), $4 FROM fence ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value)
SELECT * FROM fence`, nil)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return &barePostgres{conn: conn}, nil
}

func (b *barePostgres) commit(ops []fencedOp) error {
	var gone, put []string
	for _, op := range ops {
		if op.remove {
			gone = append(gone, op.key)
		} else {
			put = append(put, op.key)
		}
	}
	array := func(keys []string) []byte { return []byte("{" + strings.Join(keys, ",") + "}") }
	r := b.conn.ExecPrepared(context.Background(), "commit", [][]byte{fmt.Append(nil, b.version), array(gone), array(put), []byte(fencedValue)}, nil, nil).Read()
	if r.Err != nil {
		return r.Err
	}
	if len(r.Rows) != 1 {
		return errors.New("PostgreSQL: the bare transaction was refused")
	}
	b.version++
	return nil
}
