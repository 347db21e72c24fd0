// Package pgtest starts real PostgreSQL for tests, on ports from the kernel: a cluster of its own
// in a temporary directory, which nobody else uses.
//
// The programs are those in PATH, or else the newest in Debian's /usr/lib/postgresql. The variable
// TEST_POSTGRES names another directory that has postgres and initdb. Where there are none, tests
// are skipped, or fail with CI=true in the environment or if TEST_POSTGRES is set. With -short they
// are skipped, too. PostgreSQL does not run as root: tests of root run it as nobody.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasectl/leasectl/internal/proxyserver/store/storetest"
)

// variable chooses the PostgreSQL of the tests. Its name does not begin with LEASECTL_: tests of the
// command remove such variables, which are those of their user.
const variable = "TEST_POSTGRES"

// patience bounds the start of PostgreSQL: CI is slow.
const patience = 60 * time.Second

// User may do everything in a cluster, without a password. Database is there from the start.
const (
	User     = "root"
	Database = "postgres"
)

// Cluster is a PostgreSQL with one server.
type Cluster struct {
	Host string // HOST:PORT
	Dir  string // has data, its cluster's directory, and log

	args    []string
	process storetest.Process
}

// programs is the directory that has postgres and initdb.
var programs = sync.OnceValues(func() (string, error) {
	has := func(dir string) bool {
		for _, name := range []string{"postgres", "initdb"} {
			if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
				return false
			}
		}
		return true
	}
	if dir := os.Getenv(variable); dir != "" {
		if !has(dir) {
			return "", fmt.Errorf("%s=%s has no postgres and initdb", variable, dir)
		}
		return dir, nil
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if has(dir) {
			return dir, nil
		}
	}
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(dirs, func(a, b string) int { return versionOf(b) - versionOf(a) })
	for _, dir := range dirs {
		if has(dir) {
			return dir, nil
		}
	}
	return "", errors.Join(err, errors.New("there is no PostgreSQL: install one (Debian's package postgresql), or set "+variable))
})

// versionOf returns the version in /usr/lib/postgresql/VERSION/bin.
func versionOf(dir string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir))) // 0 for 9.6, which is older than all others
	return n
}

// Lack returns an error that says what to install if there is no PostgreSQL.
func Lack() error {
	_, err := programs()
	return err
}

// Need skips t where there is no PostgreSQL. If CI is true, or TEST_POSTGRES is set, it fails t
// instead.
func Need(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts PostgreSQL")
	}
	err := Lack()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" || os.Getenv(variable) != "" {
		t.Fatalf("no PostgreSQL for tests: %v", err)
	}
	t.Skip(err)
}

// Start starts a PostgreSQL with the further arguments args, and returns when it serves. It is
// killed at the end of t.
func Start(t testing.TB, args ...string) *Cluster {
	t.Helper()
	Need(t)
	c, err := New(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Remove)
	return c
}

// shared is the PostgreSQL of [Shared].
var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Shared returns a PostgreSQL that all tests of a package share. The first call starts it, and
// [Run] kills it.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	Need(t)
	s := &shared
	s.once.Do(func() { s.cluster, s.err = New("-c", "max_connections=300") })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}

// Run runs the tests of a package, and returns their exit code. TestMain calls Run.
func Run(m *testing.M) int {
	code := m.Run()
	if shared.cluster != nil {
		shared.cluster.Remove()
	}
	return code
}

// unprivileged returns the credential of the user that PostgreSQL runs as; nil: ours.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, errUID := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(nobody.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(errUID, errGID)
}

// command returns a command of PostgreSQL that runs as an unprivileged user.
func (c *Cluster) command(name string, args ...string) (*exec.Cmd, error) {
	dir, err := programs()
	if err != nil {
		return nil, err
	}
	credential, err := unprivileged()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(dir, name), args...)
	cmd.Dir = c.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") }), "LC_ALL=C", "HOME="+c.Dir)
	return cmd, nil
}

// New starts a PostgreSQL with the further arguments args, and returns when it serves. The caller
// must remove it.
func New(args ...string) (_ *Cluster, err error) {
	c := new(Cluster)
	// Not t.TempDir, into which only our user may go. A socket's path has at most 107 bytes.
	if c.Dir, err = os.MkdirTemp("", "pgtest-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Remove()
		}
	}()
	if err := own(c.Dir); err != nil {
		return nil, err
	}
	init, err := c.command("initdb", "--no-sync", "--auth=trust", "--username="+User, "--encoding=UTF8", "--no-locale", "--pgdata=data")
	if err != nil {
		return nil, err
	}
	if out, err := init.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	for range 3 { // another process may take the port before PostgreSQL does
		var port string
		if port, err = c.choosePort(); err != nil {
			return nil, err
		}
		// Tests survive no power cut, so they need no fsync.
		c.args = append([]string{"-D", "data", "-k", "", "-c", "listen_addresses=127.0.0.1", "-c", "port=" + port, "-c", "fsync=off", "-c", "full_page_writes=off",
			"-c", "shared_buffers=16MB", "-c", "log_destination=stderr"}, args...)
		if err = c.Start(); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// choosePort sets c.Host to an address that is free at the moment, and returns its port.
func (c *Cluster) choosePort() (string, error) {
	hosts, err := storetest.FreePorts(1)
	if err != nil {
		return "", err
	}
	c.Host = hosts[0]
	_, port, err := net.SplitHostPort(c.Host)
	return port, err
}

// URL is the address of the cluster's database, for User.
func (c *Cluster) URL() string {
	return "postgres://" + User + "@" + c.Host + "/" + Database + "?sslmode=disable"
}

// Start starts a server that was killed, and returns when it serves.
func (c *Cluster) Start() error {
	end := time.Now().Add(patience)
	for {
		err := c.startOnce(end)
		// What is left of a server that was killed keeps its memory for a moment.
		if err == nil || time.Now().After(end) || !strings.Contains(err.Error(), "shared memory") && !strings.Contains(err.Error(), "postmaster.pid") {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *Cluster) startOnce(end time.Time) error {
	cmd, err := c.command("postgres", c.args...)
	if err != nil {
		return err
	}
	if err := c.process.Start(cmd, filepath.Join(c.Dir, "log")); err != nil {
		return err
	}
	for {
		if _, err := c.query("SELECT 1", patience/4); err == nil {
			return nil
		} else if time.Now().After(end) {
			return err
		}
		if !c.process.Running() {
			return fmt.Errorf("PostgreSQL ended: %s", c.process.Output())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Do carries out SQL as User, in one transaction, and returns the first column of the last result.
func (c *Cluster) Do(t testing.TB, sql string) (column []string) {
	t.Helper()
	column, err := c.query(sql, patience)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return column
}

// query does what Do does, within limit.
func (c *Cluster) query(sql string, limit time.Duration) (column []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := pgconn.Connect(ctx, c.URL())
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, row := range results[len(results)-1].Rows {
		column = append(column, string(row[0]))
	}
	return column, nil
}

// Kill kills the server and all its processes, and waits for its end.
func (c *Cluster) Kill() { c.process.Kill() }

// Stop suspends all processes of the server, until Continue.
func (c *Cluster) Stop() { c.process.Stop() }

// Continue lets a stopped server go on.
func (c *Cluster) Continue() { c.process.Continue() }

// Remove kills the server and deletes its files.
func (c *Cluster) Remove() {
	c.Kill()
	// A process that was killed may still make a file.
	for range 100 {
		if err := os.RemoveAll(c.Dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Standby kills c, and starts a cluster that goes on from a copy of its files. The copy takes no
// writes until it is promoted, and hears nothing of what c does later. c stays killed.
func (c *Cluster) Standby(t testing.TB) *Cluster {
	t.Helper()
	c.Kill()
	d := new(Cluster)
	var err error
	if d.Dir, err = os.MkdirTemp("", "pgtest-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Remove)
	data := filepath.Join(d.Dir, "data")
	if err := os.CopyFS(data, os.DirFS(filepath.Join(c.Dir, "data"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := own(d.Dir); err != nil {
		t.Fatal(err)
	}
	port, err := d.choosePort()
	if err != nil {
		t.Fatal(err)
	}
	d.args = append(slices.Clone(c.args), "-c", "port="+port) // the last port counts
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	return d
}

// own gives dir and all in it to the user that PostgreSQL runs as, with the modes that it wants.
func own(dir string) error {
	credential, err := unprivileged()
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		err = os.Chmod(path, mode)
		if credential != nil {
			err = errors.Join(err, os.Chown(path, int(credential.Uid), int(credential.Gid)))
		}
		return err
	})
}
