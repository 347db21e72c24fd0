package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const postgresPassword = "postgres-password-0123456789"

// startPostgres starts PostgreSQL with TLS, a database leases, and a user leasectl who owns the
// schema leasectl in it. It returns the address.
func startPostgres(t *testing.T, files secrets) string {
	t.Helper()
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian's, the newest at the end
	if err != nil || len(programs) == 0 {
		t.Fatalf("there is no PostgreSQL: install the package postgresql (%v)", err)
	}
	bin := programs[len(programs)-1]
	dir, err := os.MkdirTemp("", "examples-") // which another user may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	owned := func(name, text string) string {
		path := writePrivate(t, filepath.Join(dir, name), text)
		if os.Getuid() == 0 {
			os.Chown(path, nobody, nobody)
		}
		return path
	}
	if os.Getuid() == 0 {
		os.Chown(dir, nobody, nobody)
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir = dir
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") }), "LC_ALL=C")
		if os.Getuid() == 0 { // it does not run as root
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		return cmd
	}
	do := func(cmd *exec.Cmd) {
		t.Helper()
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "ERROR") {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	do(command("initdb", "--no-sync", "--auth=scram-sha-256", "--pwfile="+owned("pwfile", "secret-of-root\n"), "--username=root", "-D", "data"))
	single := func(database, sql string) {
		t.Helper()
		cmd := command("postgres", "--single", "-j", "-D", "data", database)
		cmd.Stdin = strings.NewReader(sql)
		do(cmd)
	}
	single("postgres", "CREATE DATABASE leases;\n\n")
	single("leases", "CREATE ROLE leasectl LOGIN PASSWORD '"+postgresPassword+"';\n\nCREATE SCHEMA leasectl AUTHORIZATION leasectl;\n\n")
	port := fmt.Sprint(freePort(t, "127.0.0.1"))
	copied := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return owned(filepath.Base(path), string(text))
	}
	cert, key := copied(files.cert), copied(files.key)
	cmd := command("postgres", "-D", "data", "-k", "", "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "ssl=on",
		"-c", "ssl_cert_file="+cert, "-c", "ssl_key_file="+key)
	log, err := os.Create(filepath.Join(t.TempDir(), "postgres.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGQUIT) // which ends its children, too
		cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("PostgreSQL:\n%s", text)
		}
	})
	return "127.0.0.1:" + port
}
