package pgtest

import (
	"os"
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
