package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// failedReleases are proxies that give nothing back, and the exit code of a
// release that finds one.
var failedReleases = []struct {
	name string
	h    http.HandlerFunc
	code int
}{
	{"dead", gone, exitUnreachable},
	{"redirect", answering(302, "", "Location", "https://login.test/"), exitFailure},
	{"bad request", answering(400, "no"), exitFailure},
	{"not found", answering(404, "no such page"), exitFailure},
	{"error", answering(500, "no store"), exitFailure},
	{"busy", answering(503, "busy"), exitFailure},
}

// A release that failed leaves the names file: scripts that glob for handles, test
// for one or print one find it, and releasing what they find gives the lease back.
// Before, the names file was gone, and nobody released the lease again.
func TestFailedReleaseLeavesTheNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, build(t, ""), "install=20")
	var all sync.WaitGroup
	for _, tt := range failedReleases {
		for _, command := range []string{"release", "reacquire"} {
			all.Go(func() {
				address, closing := w.listen(tt.h)
				if tt.name == "dead" {
					closing()
				}
				dir := w.path(strings.ReplaceAll(tt.name, " ", "-") + "-" + command)
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Error(err)
					return
				}
				handle := filepath.Join(dir, "install.handle")
				if out, err := w.command("acquire", "--type", "install", "--count", "1", "--handle", handle).Output(); err != nil {
					t.Errorf("acquire: %v: %s", err, out)
					return
				}
				names, err := os.ReadFile(handle)
				if err != nil {
					t.Error(err)
					return
				}
				args := []string{command, "--handle", handle, "--proxy", address}
				if got := exitCode(w.command(args...).Run()); got != tt.code {
					t.Errorf("%s, %s: exit code %d, want %d", tt.name, command, got, tt.code)
				}
				found, _ := filepath.Glob(filepath.Join(dir, "*.handle"))
				if len(found) != 1 {
					t.Errorf("%s, %s: after a failed release the handles are %v", tt.name, command, found)
				}
				if cat, err := w.command("cat", "--handle", handle).Output(); err != nil || string(cat) != string(names) {
					t.Errorf("%s, %s: cat: %q, %v, want %q", tt.name, command, cat, err, names)
				}
				if out, err := w.command("release", "--handle", handle).Output(); err != nil || string(out) != string(names) {
					t.Errorf("%s, %s: released again: %q, %v, want %q", tt.name, command, out, err, names)
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
					t.Errorf("%s, %s: left behind: %v", tt.name, command, left)
				}
			})
		}
	}
	all.Wait()
	w.wantHeld()
}
