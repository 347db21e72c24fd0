package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A database that does not answer, or an address without a database, is not reached.
func TestReach(t *testing.T) {
	answers := http.NewServeMux()
	answers.HandleFunc("/there/index/db.json", func(w http.ResponseWriter, r *http.Request) {})
	server := httptest.NewServer(answers)
	defer server.Close()
	if err := reach(server.URL + "/there"); err != nil {
		t.Error(err)
	}
	if err := reach(server.URL + "/elsewhere"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v", err)
	}
	server.Close()
	if err := reach(server.URL + "/there"); err == nil {
		t.Error("nobody was reached")
	}
}

// The pinned tool runs, and distinguishes a function that is called from one that is not.
func TestCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("builds govulncheck")
	}
	t.Chdir("../..")
	// With -n the tool is built, and not run.
	if out, err := exec.Command("go", "tool", "-n", "-modfile=scripts/vuln/govulncheck.mod", "govulncheck").CombinedOutput(); err != nil && os.Getenv("CI") != "true" {
		t.Log(string(out))
		t.Skip("govulncheck cannot be built: its modules are not in the cache, and the go command cannot download them")
	}
	db := t.TempDir()
	for name, text := range map[string]string{
		"index/db.json":        `{"modified":"2026-11-22T00:00:00Z"}`,
		"index/modules.json":   `[{"path":"golang.org/x/sys","vulns":[{"id":"GO-2026-0001","modified":"2026-11-22T00:00:00Z"},{"id":"GO-2026-0002","modified":"2026-11-22T00:00:00Z"}]}]`,
		"ID/GO-2026-0001.json": vulnerability("GO-2026-0001", "ClockGettime"),
		"ID/GO-2026-0002.json": vulnerability("GO-2026-0002", "Mount"),
	} {
		path := filepath.Join(db, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var found strings.Builder
	err := check(t.Context(), &found, "file://"+db, "./internal/suspend")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(found.String(), "affected by 1 vulnerability") ||
		!strings.Contains(found.String(), "GO-2026-0001") || strings.Contains(found.String(), "GO-2026-0002") {
		t.Errorf("%v, found\n%s", err, &found)
	}
}

// vulnerability is an entry of a database, for a function of golang.org/x/sys/unix.
func vulnerability(id, function string) string {
	return `{"schema_version":"1.3.1","id":"` + id + `","modified":"2026-11-22T00:00:00Z",
		"affected":[{"package":{"name":"golang.org/x/sys","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
		"ecosystem_specific":{"imports":[{"path":"golang.org/x/sys/unix","symbols":["` + function + `"]}]}}],
		"database_specific":{"url":"https://example.org/` + id + `"}}`
}
