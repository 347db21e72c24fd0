package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/postgres/pgtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated/leadtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

// patience is how long a test waits for what must happen: CI is slow.
const patience = time.Minute

// newSchema returns a schema that is not there yet, however often a test runs.
func newSchema() string { return fmt.Sprintf("new_%x", rand.Uint64()) }

// logged is a log that a test reads.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// awaits waits until the log has text.
func (l *logged) awaits(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(l.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log does not say %q:\n%s", text, l)
		}
	}
}

// elector opens an elector for the time of t.
func elector(t testing.TB, o Options) *Elector {
	t.Helper()
	o.TTL = cmp.Or(o.TTL, patience) // a call may take so long, too
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// inSchema is the URL of a cluster and a schema of its own.
func inSchema(c *pgtest.Cluster) Options { return Options{URL: c.URL(), Schema: newSchema()} }

// Every method does what package replicated wants of it, also a second time, and nothing if its
// condition does not hold.
func TestDatabase(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := elector(t, inSchema(pgtest.Shared(t))).database
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	look := func(leader, meta string) replicated.State {
		t.Helper()
		s, err := d.Look(ctx)
		must(err)
		if string(s.Leader.Value) != leader || string(s.Meta.Value) != meta || (s.Leader.Version == 0) != (leader == "") || (s.Meta.Version == 0) != (meta == "") {
			t.Errorf("it has %q, %d and %q, %d; want %q and %q", s.Leader.Value, s.Leader.Version, s.Meta.Value, s.Meta.Version, leader, meta)
		}
		return s
	}
	take := func(leader string, seen int64, want bool) {
		t.Helper()
		if _, taken, err := d.Take(ctx, []byte(leader), seen); err != nil || taken != want {
			t.Errorf("take by %s: %t, %v", leader, taken, err)
		}
	}
	write := func(c replicated.Commit, want bool) int64 {
		t.Helper()
		version, done, err := d.Commit(ctx, &c)
		if err != nil || done != want {
			t.Errorf("commit %s: %t, %v", c.Meta, done, err)
		}
		return version
	}
	read := func(want ...replicated.Record) {
		t.Helper()
		got, more, err := d.Read(ctx, 0)
		if err != nil || more || !slices.EqualFunc(got, want, func(a, b replicated.Record) bool { return a.Number == b.Number && bytes.Equal(a.Value, b.Value) }) {
			t.Errorf("records %v, %t, %v; want %v", got, more, err, want)
		}
	}
	a := []byte("a'\\x\x00\xff")

	look("", "")
	take("x", 7, false) // before there are tables
	var parallel sync.WaitGroup
	won := make(chan string, 8)
	for i := range cap(won) { // servers that start at the same moment
		parallel.Go(func() {
			name := fmt.Sprint("first-", i)
			if _, taken, err := d.Take(ctx, []byte(name), 0); err != nil {
				t.Error(err)
			} else if taken {
				won <- name
			}
		})
	}
	parallel.Wait()
	if len(won) != 1 {
		t.Fatalf("%d servers took the lead", len(won))
	}
	first := look(<-won, "").Leader
	take("second", first.Version+1, false)
	take(string(a), first.Version, true)
	take("third", first.Version, false)
	seen := look(string(a), "").Leader
	if seen.Version <= first.Version {
		t.Errorf("the leader's entry had version %d, and has %d", first.Version, seen.Version)
	}

	two := []replicated.Record{{Number: 1, Value: []byte("one")}, {Number: 1 << 60, Value: a}}
	write(replicated.Commit{Leader: []byte("other"), Meta: []byte("m"), Writes: two}, false)
	write(replicated.Commit{Leader: a, Version: 1, Meta: []byte("m"), Writes: two}, false)
	read()
	version := write(replicated.Commit{Leader: a, Meta: []byte("m1"), Writes: two}, true)
	read(two...)
	write(replicated.Commit{Leader: a, Meta: []byte("m"), Writes: two[:1]}, false)
	last := write(replicated.Commit{Leader: a, Version: version, Meta: []byte("m2"), Writes: []replicated.Record{{Number: 1}, {Number: 2, Value: []byte("two")}, {Number: 1 << 60, Value: []byte("again")}}}, true)
	read(replicated.Record{Number: 2, Value: []byte("two")}, replicated.Record{Number: 1 << 60, Value: []byte("again")})
	if s := look(string(a), "m2"); s.Meta.Version != last || last <= version || s.Leader.Version != seen.Version {
		t.Errorf("after commits %d and %d it has %+v", version, last, s)
	}

	if v, kept, err := d.Keep(ctx, []byte("x")); err != nil || kept {
		t.Errorf("kept by another: %d, %t, %v", v, kept, err)
	}
	if v, kept, err := d.Keep(ctx, a); err != nil || !kept || v != last {
		t.Errorf("kept: %d, %t, %v", v, kept, err)
	}
	if s := look(string(a), "m2"); s.Leader.Version <= seen.Version {
		t.Error("keeping does not change the version")
	}
	must(d.Resign(ctx, []byte("x")))
	look(string(a), "m2")
	must(d.Resign(ctx, a))
	look("", "m2")
	write(replicated.Commit{Leader: a, Version: last, Meta: []byte("m3")}, false)

	for range 2 {
		if all, err := d.Standbys(ctx, &replicated.Standby{Name: "it's me", Value: a}); err != nil || len(all) != 1 || all[0].Name != "it's me" || !bytes.Equal(all[0].Value, a) {
			t.Errorf("standbys %+v, %v", all, err)
		}
	}
	must(d.Leave(ctx, "it's me", 1))
	if all, err := d.Standbys(ctx, nil); err != nil || len(all) != 1 || all[0].Version != 2 {
		t.Errorf("standbys %+v, %v", all, err)
	}
	must(d.Leave(ctx, "it's me", 0))
	if all, err := d.Standbys(ctx, nil); err != nil || len(all) != 0 {
		t.Errorf("standbys %+v, %v", all, err)
	}
}

// The next leader loads what was committed, in pages, however many commits it was, and the size of
// the tables is known.
func TestCommitAndLoad(t *testing.T) {
	t.Parallel()
	o := inSchema(pgtest.Shared(t))
	l := leadtest.Gain(t, elector(t, o), patience)
	if snap := leadtest.Load(t, l); len(snap.Leases) != 0 {
		t.Errorf("a new store has %+v", snap)
	}
	id := l.ID()
	var b store.Batch
	const n = 3*pageSize/2 + 1
	for i := range uint64(n) {
		b.Changes = append(b.Changes, leadtest.Granted(fmt.Sprint("q-", i), i+1))
		b.Steps = append(b.Steps, len(b.Changes))
	}
	b.Generation = n
	if err := l.Commit(b); err != nil {
		t.Fatal(err)
	}
	leadtest.Commit(t, l, leadtest.Done("q-7"))
	reserved := pool.Reservation{Name: "q-8", Type: "q", Owner: "o\x00alice", Reason: "why", Since: 3, At: time.UnixMilli(1_800_000_000_123).UTC(), Until: 9}
	leadtest.Commit(t, l, pool.Change{Kind: pool.NameReserved, Reserved: &pool.Reserved{Reservation: reserved}})
	several := pool.Waiter{Request: pool.Request{ID: "several", Type: "t", Ask: pool.Ask{Count: 1, Also: "u\nv=2"}}, Units: 1, Arrival: 1, AlsoUnits: "u=3\nv=2"}
	leadtest.Commit(t, l, pool.Change{Kind: pool.Queued, Waiter: &several})
	several.AlsoUnits, several.Passed = "u=1\nv=2", "5 0 1"
	leadtest.Commit(t, l, pool.Change{Kind: pool.Recounted, Waiter: &several})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	next := elector(t, o)
	l = leadtest.Gain(t, next, patience)
	if snap := leadtest.Load(t, l); len(snap.Leases) != n-1 || !slices.Equal(snap.Waiters, []pool.Waiter{several}) || !slices.Equal(snap.Reserved, []pool.Reservation{reserved}) || l.ID() != id || id == "" {
		t.Errorf("%d leases, want %d; the ids are %q and %q", len(snap.Leases), n-1, id, l.ID())
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if total, used := next.Size(); total > 0 && used <= total {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the size is %d, %d", total, used)
		}
	}
}

// A commit whose answer is lost counts once, whether it was carried out or not.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	c := pgtest.Shared(t)
	for what, f := range map[string]fate{"answered": answered, "silent": silent, "lost": lost, "halved": halved} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, o := newWire(t, c.Host), inSchema(c)
			o.URL, o.TTL = strings.Replace(o.URL, c.Host, w.Addr().String(), 1), 4*time.Second
			e := elector(t, o)
			l := leadtest.Gain(t, e, patience)
			leadtest.Load(t, l)
			for i := range 4 {
				rule, met := once("EXECUTE leasectl_commit", f)
				w.disturb(rule)
				leadtest.Commit(t, l, leadtest.Granted(fmt.Sprint("q-", i), uint64(i+1)))
				if !met() {
					t.Error("no commit was disturbed")
				}
				if i%2 == 1 {
					leadtest.Commit(t, l, leadtest.Done(fmt.Sprint("q-", i)))
				}
			}
			w.disturb(nil)
			l.Close()
			if got := leadtest.Held(t, leadtest.Gain(t, e, patience)); got != "q-0 q-2" {
				t.Errorf("held are %s", got)
			}
		})
	}
}

// A leader that stops in the middle of sending a commit holds no lock: the next leader commits, and
// what the old one sends afterwards does nothing.
func TestStopsWhileItCommits(t *testing.T) {
	t.Parallel()
	c := pgtest.Shared(t)
	w, o := newWire(t, c.Host), inSchema(c)
	o.TTL = 2 * time.Second
	next := elector(t, o)
	o.URL = strings.Replace(o.URL, c.Host, w.Addr().String(), 1)
	l := leadtest.Gain(t, elector(t, o), patience)
	leadtest.Load(t, l)
	w.disturb(func(sent []byte) fate { return halved }) // everything from now on
	failed := make(chan error, 1)
	go func() {
		failed <- l.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-0", 1)}, Generation: 1})
	}()
	began := time.Now()
	leads := leadtest.Gain(t, next, patience)
	leadtest.Load(t, leads)
	leadtest.Commit(t, leads, leadtest.Granted("q-1", 2))
	t.Logf("after %v", time.Since(began))
	if err := <-failed; !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("the commit: %v", err)
	}
	if err := l.Holds(); !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("it leads on: %v", err)
	}
	if got := leadtest.Held(t, leads); got != "q-1" {
		t.Errorf("held are %s", got)
	}
}

// When a leader resigns, a standby hears it at once: nobody waits for the TTL, nor for the next
// look.
func TestHandOver(t *testing.T) {
	t.Parallel()
	o := inSchema(pgtest.Shared(t))
	o.TTL, o.Advertise = time.Hour, "http://first"
	first, next := leadtest.Gain(t, elector(t, o), patience), elector(t, o)
	leadtest.Load(t, first)
	var resigned sync.WaitGroup
	resigned.Go(func() {
		for next.Leader().URL == "" && t.Context().Err() == nil { // until it stands by
			time.Sleep(time.Millisecond)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	})
	leadtest.Gain(t, next, patience) // within patience, not within a quarter of an hour
	resigned.Wait()
}

// Whatever the database's settings are, a session has its own where they matter.
func TestSession(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t, "-c", "synchronous_commit=off", "-c", "default_transaction_isolation=serializable", "-c", "default_transaction_read_only=on",
		"-c", "statement_timeout=0", "-c", "lock_timeout=0", "-c", "idle_session_timeout=1h", "-c", "bytea_output=escape")
	e := elector(t, Options{URL: c.URL(), Schema: "user", TTL: 8 * time.Second}) // a word of SQL
	l := leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-\\0", 1))
	for name, want := range map[string]string{
		"synchronous_commit": "on", "transaction_isolation": "read committed", "statement_timeout": "4s", "lock_timeout": "2s",
		"idle_in_transaction_session_timeout": "4s", "idle_session_timeout": "0", "application_name": "leasectl",
	} {
		rows, err := e.database.exec(t.Context(), "SELECT current_setting('"+name+"')")
		if err != nil || string(rows[0][0]) != want {
			t.Errorf("%s is %q, %v; want %q", name, rows, err, want)
		}
	}
	l.Close()
	if got := leadtest.Held(t, leadtest.Gain(t, e, patience)); got != "q-\\0" {
		t.Errorf("held are %q", got)
	}
}

// A statement that waits for a lock ends, with its connection usable, and is made again.
func TestLocked(t *testing.T) {
	t.Parallel()
	c := pgtest.Shared(t)
	o := inSchema(c)
	o.TTL = 12 * time.Second // a statement waits for a lock for 3 s, and the lead lasts for longer on a slow machine, too
	other := elector(t, o).database
	session := func() string {
		t.Helper()
		rows, err := other.exec(t.Context(), "SELECT pg_backend_pid()")
		if err != nil {
			t.Fatal(err)
		}
		return string(rows[0][0])
	}
	before := session()
	var log logged
	o.Log = log.logger()
	l := leadtest.Gain(t, elector(t, o), patience)
	leadtest.Load(t, l)
	conn, err := pgconn.Connect(t.Context(), c.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE "+o.Schema+".store").ReadAll(); err != nil {
		t.Fatal(err)
	}
	committed := make(chan error, 1)
	go func() {
		committed <- l.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-0", 1)}, Generation: 1})
	}()
	const lockNotAvailable = "55P03"
	if _, _, err := other.Keep(t.Context(), []byte("x")); codeOf(err) != lockNotAvailable {
		t.Errorf("a statement that waits for the lock: %v", err)
	}
	if after := session(); after != before {
		t.Errorf("it ended with its connection: the session was %s, and is %s", before, after)
	}
	log.awaits(t, "PostgreSQL does not answer as it should")
	if _, err := conn.Exec(t.Context(), "ROLLBACK").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := <-committed; err != nil {
		t.Error(err)
	}
}

// A user that owns the schema needs no further right, nor does one with the rights on its tables
// once they are there. The log says what is missing.
func TestRights(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t)
	c.Do(t, "CREATE ROLE owner LOGIN; CREATE ROLE guest LOGIN; CREATE ROLE stranger LOGIN; CREATE SCHEMA leases AUTHORIZATION owner")
	as := func(user string) Options {
		return Options{URL: strings.Replace(c.URL(), pgtest.User+"@", user+"@", 1), Schema: "leases", TTL: 8 * time.Second}
	}
	refused := func(o Options) {
		t.Helper()
		var log logged
		o.Log = log.logger()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		e := elector(t, o)
		go func() {
			_, err := e.Gain(ctx)
			ended <- err
		}()
		log.awaits(t, "our user of PostgreSQL lacks a right")
		cancel()
		if err := <-ended; err == nil {
			t.Error("it leads")
		}
	}
	refused(as("stranger"))
	l := leadtest.Gain(t, elector(t, as("owner")), patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	l.Close()
	refused(as("guest"))
	c.Do(t, "GRANT USAGE ON SCHEMA leases TO guest; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA leases TO guest")
	l = leadtest.Gain(t, elector(t, as("guest")), patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-1", 2))
	if got := leadtest.Held(t, l); got != "q-0 q-1" {
		t.Errorf("held are %s", got)
	}
}

// The file with the password is read whenever a connection is made, so the password may change.
func TestPassword(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t)
	c.Do(t, "CREATE ROLE leases LOGIN PASSWORD 'first'; CREATE SCHEMA leasectl AUTHORIZATION leases")
	hba := filepath.Join(c.Dir, "data", "pg_hba.conf")
	text, err := os.ReadFile(hba)
	if err == nil {
		err = os.WriteFile(hba, append([]byte("host all leases all scram-sha-256\n"), text...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Do(t, "SELECT pg_reload_conf()")
	file := filepath.Join(t.TempDir(), "pgpass")
	password := func(p string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("*:*:*:leases:"+p+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	password("wrong")
	var log logged
	e := elector(t, Options{URL: strings.Replace(c.URL(), pgtest.User+"@", "leases@", 1) + "&passfile=" + url.PathEscape(file), TTL: 8 * time.Second, Log: log.logger()})
	var gaining sync.WaitGroup
	t.Cleanup(gaining.Wait) // t.Context() ends before cleanups run
	var l store.Lead
	gained := make(chan error, 1)
	gaining.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var err error
		l, err = e.Gain(ctx)
		gained <- err
	})
	log.awaits(t, "PostgreSQL refuses our user")
	password("first")
	if err := <-gained; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	leadtest.Load(t, l)
	c.Do(t, "ALTER ROLE leases PASSWORD 'second'")
	password("second")
	c.Do(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'leases'")
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
}

// A leader goes on when PostgreSQL takes no new connections, and says so when it needs one.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t, "-c", "max_connections=8", "-c", "superuser_reserved_connections=1", "-c", "max_wal_senders=0")
	c.Do(t, "CREATE ROLE leases LOGIN; CREATE SCHEMA leasectl AUTHORIZATION leases")
	url := strings.Replace(c.URL(), pgtest.User+"@", "leases@", 1)
	l := leadtest.Gain(t, elector(t, Options{URL: url}), patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	for {
		other, err := pgconn.Connect(t.Context(), url)
		if err != nil {
			if codeOf(err) != codeConnections {
				t.Fatal(err)
			}
			break
		}
		defer other.Close(context.Background())
	}
	leadtest.Commit(t, l, leadtest.Granted("q-1", 2))
	var log logged
	next := elector(t, Options{URL: url, Log: log.logger()})
	ctx, cancel := context.WithCancel(t.Context())
	var standby sync.WaitGroup
	defer standby.Wait()
	defer cancel()
	standby.Go(func() { next.Gain(ctx) })
	log.awaits(t, "PostgreSQL takes no more connections")
	leadtest.Commit(t, l, leadtest.Granted("q-2", 3))
}

// A pooler that gives a statement any connection is refused with a sentence.
func TestPooler(t *testing.T) {
	t.Parallel()
	c := pgtest.Shared(t)
	w, o := newWire(t, c.Host), inSchema(c)
	w.heard = func(answer []byte) { // a pooler names a process of its own
		if i := bytes.Index(answer, []byte("K\x00\x00\x00\x0c")); i >= 0 && len(answer) > i+9 {
			answer[i+8] ^= 0xff
		}
	}
	o.URL = strings.Replace(o.URL, c.Host, w.Addr().String(), 1)
	if _, err := elector(t, o).Gain(t.Context()); !errors.Is(err, store.ErrOpen) || !strings.Contains(err.Error(), "a pooler, such as pgbouncer") {
		t.Errorf("gain: %v", err)
	}
}

// A server that knew the store ends if the store is gone or of a later format. It begins anew only
// when it is started anew.
func TestRefused(t *testing.T) {
	t.Parallel()
	c := pgtest.Shared(t)
	o := inSchema(c)
	e := elector(t, o)
	l := leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	l.Close()
	c.Do(t, "UPDATE "+o.Schema+".store SET format = 99")
	if _, err := e.Gain(t.Context()); !errors.Is(err, store.ErrOpen) || !strings.Contains(err.Error(), "format 99") {
		t.Errorf("a later format: %v", err)
	}
	c.Do(t, "UPDATE "+o.Schema+".store SET format = 1; DELETE FROM "+o.Schema+".records")
	l = leadtest.Gain(t, e, patience)
	if _, err := l.Load(); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a row is gone: %v", err)
	}
	l.Close()
	c.Do(t, "UPDATE "+o.Schema+".store SET leader = NULL; DROP SCHEMA "+o.Schema+" CASCADE")
	if _, err := e.Gain(t.Context()); !errors.Is(err, store.ErrGone) {
		t.Errorf("the schema is gone: %v", err)
	}
	leadtest.Load(t, leadtest.Gain(t, elector(t, o), patience))
}

// A leader does not go on if its database went on without some of its commits: after a failover
// to a server that lacked them. It finds that server by itself.
func TestFailoverThatLosesCommits(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t)
	l := leadtest.Gain(t, elector(t, Options{URL: c.URL()}), patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	l.Close()
	standby := c.Standby(t)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var log logged
	e := elector(t, Options{URL: strings.Replace(c.URL(), c.Host, standby.Host+","+c.Host, 1), Log: log.logger()})
	l = leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-1", 2))
	c.Kill()
	committed := make(chan error, 1)
	go func() {
		committed <- l.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-2", 3)}, Generation: 3})
	}()
	log.awaits(t, "no host of --data is the primary")
	standby.Do(t, "SELECT pg_promote()")
	if err := <-committed; !errors.Is(err, store.ErrNotLeader) {
		t.Errorf("a commit after the failover: %v", err)
	}
	l.Close()
	if _, err := e.Gain(t.Context()); !errors.Is(err, store.ErrLost) {
		t.Errorf("it leads again: %v", err)
	}
	if got := leadtest.Held(t, leadtest.Gain(t, elector(t, Options{URL: standby.URL()}), patience)); got != "q-0" {
		t.Errorf("held are %s", got)
	}
}

// A server that lost its connections, since PostgreSQL was killed, goes on when it is back.
func TestRestart(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t)
	l := leadtest.Gain(t, elector(t, Options{URL: c.URL()}), patience)
	leadtest.Load(t, l)
	for i := range uint64(3) {
		c.Kill()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		leadtest.Commit(t, l, leadtest.Granted(fmt.Sprint("q-", i), i+1))
	}
	if got := leadtest.Held(t, l); got != "q-0 q-1 q-2" {
		t.Errorf("held are %s", got)
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://leases@db.example/leases":                     "",
		"postgresql://leases@a:5433,b/leases?sslmode=verify-full": "",
		"postgres:///leases?host=/run/postgresql":                 "",
		"postgres://leases:secret@db.example/leases":              "without a password",
		"postgres://leases@db.example/leases?password=secret":     "without a password",
		"postgres://leases@db.example/leases?sslmode=secret":      "sslmode",
		"postgres:/db.example/leases":                             "a directory of such a name",
		"Postgres://db.example/leases":                            "a directory of such a name",
	} {
		if !IsURL(url) {
			t.Errorf("%s is taken for a directory", url)
		}
		err := CheckURL(url)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
		if err != nil && strings.Contains(url, "assword=secret") && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error repeats the password: %v", url, err)
		}
	}
	for _, dir := range []string{"postgres", "./postgres:x", "data", "/srv/postgres://x"} {
		if IsURL(dir) {
			t.Errorf("%s is taken for a URL", dir)
		}
	}
	for name, valid := range map[string]bool{"leasectl": true, "a_1": true, "": false, "A": false, "1a": false, "pg_x": false, "a-b": false, "a b": false, strings.Repeat("x", 48): false} {
		if err := CheckSchema(name); (err == nil) != valid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// awaitRows waits until a query has rows.
func awaitRows(t *testing.T, c *pgtest.Cluster, sql string) {
	t.Helper()
	for end := time.Now().Add(patience); len(c.Do(t, sql)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: no rows", sql)
		}
	}
}

// Without the standby that the database wants an acknowledgement from, no commit is answered, also
// if its wait is broken off, after which everybody sees it. When the standby is there, the commit
// counts, once.
func TestCommitWaitsForStandby(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t)
	var log logged
	e := elector(t, Options{URL: c.URL(), Log: log.logger()})
	l := leadtest.Gain(t, e, patience)
	leadtest.Load(t, l)
	leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
	c.Do(t, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	c.Do(t, "SELECT pg_reload_conf()")
	// The setting is in force when a transaction of another session waits.
	others, stop := context.WithCancel(t.Context())
	var other sync.WaitGroup
	other.Go(func() {
		conn, err := pgconn.Connect(others, c.URL())
		for err == nil {
			_, err = conn.Exec(others, "CREATE TEMPORARY TABLE t (); CREATE TABLE u (); DROP TABLE t, u").ReadAll()
		}
	})
	awaitRows(t, c, "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	stop()
	other.Wait()
	committed := make(chan error, 1)
	go func() {
		committed <- l.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-1", 2)}, Generation: 2})
	}()
	const waits = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'leasectl'"
	for range 3 { // the commit, and then the writes that follow it
		awaitRows(t, c, "SELECT pid "+waits)
		c.Do(t, "SELECT pg_cancel_backend(pid) "+waits)
		select {
		case err := <-committed:
			t.Fatalf("a commit that no standby has was answered: %v", err)
		default:
		}
	}
	log.awaits(t, "PostgreSQL answered with a warning")
	if got := c.Do(t, "SELECT version FROM leasectl.store"); len(got) != 1 || got[0] != "3" {
		t.Errorf("PostgreSQL shows version %v, want 3: begun, and two commits", got)
	}
	c.Do(t, "ALTER SYSTEM RESET synchronous_standby_names")
	c.Do(t, "SELECT pg_reload_conf()")
	if err := <-committed; err != nil {
		t.Error(err)
	}
	if got := leadtest.Held(t, l); got != "q-0 q-1" {
		t.Errorf("held are %s", got)
	}
}
