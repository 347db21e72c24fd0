package docstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/proxyserver/starter"
)

// The script in docs/recovery.md makes a backup of a server that was set up as docs/operating.md says, with
// TLS and tokens. It runs without any variable, as under cron. If it fails, it says so, its exit
// code is not 0, and the last backup stays.
func TestDocsBackup(t *testing.T) {
	t.Parallel()
	program := clitest.BuildAsTests(t)
	blocks := allDocBlocks(t)
	i := slices.IndexFunc(blocks, func(b docBlock) bool { return b.file() == "backup-leases.sh" })
	if i < 0 {
		t.Fatal("no page has a backup-leases.sh")
	}
	// The script has names within this folder: its path may need quotes.
	dir := t.TempDir()
	etc, backups := filepath.Join(dir, "etc"), filepath.Join(dir, "backups")
	for _, d := range []string{etc, backups} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := starter.Write(etc, starter.Options{Hosts: []string{"127.0.0.1"}, Pools: []starter.Pool{{Type: "install", Capacity: 1}}}); err != nil {
		t.Fatal(err)
	}
	w := clitest.NewWorldOf(t, program, "--listen", "127.0.0.1:0", "--config", filepath.Join(etc, starter.Pools), "--data", t.TempDir(),
		"--auth", filepath.Join(etc, starter.Auth), "--tls-cert", filepath.Join(etc, starter.Certificate), "--tls-key", filepath.Join(etc, starter.Key))
	address := regexp.MustCompile(`listening on https://([^ "]+)`)
	w.Await("the proxy to listen on a port", func() bool { return address.MatchString(w.Log.String()) })

	script := strings.NewReplacer("HOST:8370", address.FindStringSubmatch(w.Log.String())[1], "/etc/leasectl", "etc", "/backup", "backups").Replace(blocks[i].text)
	run := func() (string, error) {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + filepath.Dir(w.Program), "LEASECTL_STATE_DIR=" + t.TempDir()}
		if coverage := os.Getenv("GOCOVERDIR"); coverage != "" {
			cmd.Env = append(cmd.Env, "GOCOVERDIR="+coverage)
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	backup := filepath.Join(backups, "leases.db")
	if out, err := run(); err != nil || out != "" {
		t.Fatalf("%v: %s\n%s", err, out, w.Log)
	}
	if info, err := os.Stat(backup); err != nil || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
	os.Rename(filepath.Join(etc, starter.OperatorsToken), filepath.Join(etc, "was"))
	writeDocFile(t, etc, starter.OperatorsToken, "another-secret-0123456789\n", 0o600)
	if out, err := run(); err == nil || !strings.Contains(out, "leasectl: backup: ") {
		t.Errorf("a backup that fails: %v, %q", err, out)
	}
	if info, err := os.Stat(backup); err != nil || info.Size() == 0 {
		t.Errorf("the last backup: %v, %v", info, err)
	}
}
