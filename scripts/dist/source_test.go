package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// need skips t if a program is not installed. In CI, where all programs are installed, t fails.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: install the package of that name", program)
	} else if err != nil {
		t.Skipf("%s is missing: install the package of that name", program)
	}
}

// repository makes a repository with one commit of 2026-11-22, and runs the test in it.
func repository(t *testing.T) string {
	t.Helper()
	need(t, "git")
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	t.Setenv("SOURCE_DATE_EPOCH", "")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "a")
		t.Setenv("GIT_"+who+"_EMAIL", "a@example.org")
		t.Setenv("GIT_"+who+"_DATE", "2026-11-22T23:30:00-03:00") // another day in UTC
	}
	dir := t.TempDir()
	t.Chdir(dir)
	do(t, "git", "init", "--quiet")
	commit(t, "a")
	return dir
}

func do(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func commit(t *testing.T, file string) {
	t.Helper()
	write(t, file)
	do(t, "git", "add", file)
	do(t, "git", "commit", "--quiet", "--message", file)
}

func write(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantVersion(t *testing.T, pattern string, release bool) {
	t.Helper()
	s, err := readSource()
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile("^"+pattern+"$").MatchString(s.version) || s.isRelease() != release {
		t.Errorf("version %q (release: %t), want %s (%t)", s.version, s.isRelease(), pattern, release)
	}
}

const id = "g[0-9a-f]{12}"

// The version is the same in every clone of a commit, and says how far the tree is from a
// release.
func TestVersion(t *testing.T) {
	dir := repository(t)
	wantVersion(t, `0\.0\.0-20261123\.`+id, false)
	do(t, "git", "tag", "unrelated")
	do(t, "git", "tag", "v1.2.0-rc.1")
	wantVersion(t, `1\.2\.0-rc\.1`, true)
	commit(t, "b")
	wantVersion(t, `1\.2\.0-rc\.1\+1\.`+id, false)
	do(t, "git", "tag", "--annotate", "v1.2.0", "--message", "v1.2.0")
	wantVersion(t, `1\.2\.0`, true)

	write(t, "untracked")
	wantVersion(t, `1\.2\.0\+dirty`, false)
	commit(t, "untracked")
	wantVersion(t, `1\.2\.0\+1\.`+id, false)
	write(t, "b")
	if err := os.WriteFile("b", []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantVersion(t, `1\.2\.0\+1\.`+id+`\.dirty`, false)

	shallow := filepath.Join(t.TempDir(), "shallow")
	do(t, "git", "clone", "--quiet", "--depth", "1", "file://"+dir, shallow)
	t.Chdir(shallow)
	wantVersion(t, `0\.0\.0-20261123\.`+id, false)
}

// A clone of another user is read like a clone of our own.
func TestForeignTree(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	dir := repository(t)
	do(t, "chown", "-R", "12345", dir)
	if err := exec.Command("git", "status").Run(); err == nil {
		t.Fatal("git does not mind whose tree it is")
	}
	wantVersion(t, `0\.0\.0-20261123\.`+id, false)
}

// A directory that is not the top of a repository has no version.
func TestNoRepository(t *testing.T) {
	dir := repository(t)
	sub := filepath.Join(dir, "vendor")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{sub, t.TempDir()} {
		t.Chdir(dir)
		if s, err := readSource(); err == nil {
			t.Errorf("%s has version %s", dir, s.version)
		}
	}
}

// The date is that of the commit, or SOURCE_DATE_EPOCH; the version stays the same.
func TestDate(t *testing.T) {
	repository(t)
	before, err := readSource()
	if err != nil || !before.date.Equal(time.Date(2026, 11, 23, 2, 30, 0, 0, time.UTC)) {
		t.Errorf("date %v, %v", before.date, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	s, err := readSource()
	if err != nil || s.date.Unix() != 1000000000 || s.version != before.version {
		t.Errorf("date %v, version %s after %s, %v", s.date, s.version, before.version, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := readSource(); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("error %v", err)
	}
}

// A tag that the changelog does not name is refused; any other tree is accepted.
func TestChangelog(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("CHANGELOG.md", []byte("# Changelog\n\n## Unreleased\n\n## 1.2.0 (2026-12-01)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for version, ok := range map[string]bool{"1.2.0": true, "1.2": false, "1.2.0-rc.1": false, "1.3.0": false, "1.2.0+1.gabc": true, "0.0.0-20261122.gabc": true} {
		if err := checkChangelog(source{version: version}); (err == nil) != ok {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// Only a directory from an earlier run is replaced.
func TestReplaceable(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := checkReplaceable("dist"); err != nil {
		t.Error(err)
	}
	if err := checkReplaceable(dir); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	write(t, "precious")
	if err := checkReplaceable(dir); err == nil {
		t.Error("a directory with something else in it would be removed")
	}
	write(t, checksums)
	if err := checkReplaceable(dir); err != nil {
		t.Error(err)
	}
}
