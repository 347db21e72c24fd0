package pgtest

import (
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

// A PostgreSQL can be killed, started again, stopped and continued, and keeps what was committed.
func TestStart(t *testing.T) {
	t.Parallel()
	c := Start(t)
	c.Do(t, "CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
	c.Kill()
	if _, err := c.query("SELECT 1", patience); err == nil {
		t.Error("it was killed, and serves")
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	c.Stop()
	c.Continue()
	if got := c.Do(t, "SELECT n FROM t"); len(got) != 1 || got[0] != "7" {
		t.Errorf("it has %v", got)
	}
}

// A PostgreSQL that does not start is an error that says why, and leaves no files.
func TestNotStarted(t *testing.T) {
	Need(t)
	dir, err := os.MkdirTemp("", "pgtest-") // not t.TempDir, into which only our user may go
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	if _, err := New("-c", "no_such_setting=1"); err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("New: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}
