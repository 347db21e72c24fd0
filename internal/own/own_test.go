package own

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Users that are not the one of the test.
const (
	stranger = 65532
	third    = 65533
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place makes things in a directory.
type place struct {
	t    *testing.T
	root string
}

func (p place) path(name string) string { return filepath.Join(p.root, name) }

func (p place) own(name string, user int) {
	p.t.Helper()
	if user != os.Geteuid() {
		ok(p.t, os.Lchown(p.path(name), user, user))
	}
}

func (p place) dir(name string, user int, mode fs.FileMode) {
	p.t.Helper()
	ok(p.t, os.Mkdir(p.path(name), 0o700))
	p.own(name, user)
	ok(p.t, os.Chmod(p.path(name), mode))
}

func (p place) file(name string, user int) {
	p.t.Helper()
	ok(p.t, os.WriteFile(p.path(name), nil, 0o600))
	p.own(name, user)
}

func (p place) link(to, name string, user int) {
	p.t.Helper()
	ok(p.t, os.Symlink(to, p.path(name)))
	p.own(name, user)
}

// Every part of a path must be ours or root's, and every link that it leads through.
func TestPaths(t *testing.T) {
	us := os.Geteuid()
	const sticky = 0o777 | fs.ModeSticky
	for _, tt := range []struct {
		name  string
		root  bool // only root can make it
		make  func(p place)
		path  string
		dir   string // what Dir says; "": it is accepted
		asks  string // what DirForRoot says to root
		isFor string // what File says; not tried if it is "-"
	}{
		{"ours", false, func(p place) { p.dir("a", us, 0o755) }, "a", "", "", ""},
		{"missing", false, func(place) {}, "a/b", "", "", ""},
		{"all may write", false, func(p place) { p.dir("a", us, 0o777); p.dir("a/b", us, 0o700) }, "a/b", "", "", ""},
		{"a link of ours", false, func(p place) { p.dir("a", us, 0o755); p.link("a", "l", us) }, "l", "", "", ""},
		{"a link that leads up", false, func(p place) { p.dir("a", us, 0o755); p.link("../a/.//../a", "a/l", us) }, "a/l", "", "", ""},
		{"links in a circle", false, func(p place) { p.link("m", "l", us); p.link("l", "m", us) }, "l/x", "too many levels", "too many levels", "too many levels"},
		{"through a file", false, func(p place) { p.file("f", us) }, "f/x", "not a directory", "not a directory", "not a directory"},
		{"a link of ours where all may write", false, func(p place) { p.dir("a", us, sticky); p.dir("b", us, 0o700); p.link("../b", "a/l", us) }, "a/l", "", "", "is a link in a directory that others can write to"},
		{"a file of ours where all may write", false, func(p place) { p.dir("a", us, 0o777); p.file("a/f", us) }, "a/f", "", "", ""},

		{"a stranger's", true, func(p place) { p.dir("a", stranger, 0o755) }, "a", "a belongs to user 65532", "", ""},
		{"in a stranger's", true, func(p place) { p.dir("a", stranger, 0o755); p.dir("a/b", us, 0o700) }, "a/b", "a belongs to user 65532", "", "a belongs to user 65532"},
		{"missing in a stranger's", true, func(p place) { p.dir("a", stranger, 0o755) }, "a/b/c", "a belongs to user 65532", "", "a belongs to user 65532"},
		{"a stranger's, its own group may write", true, func(p place) { p.dir("a", stranger, 0o775) }, "a", "a belongs to user 65532", "", ""},
		{"a stranger's, all may write", true, func(p place) { p.dir("a", stranger, sticky) }, "a", "a belongs to user 65532", "others can write to it", ""},
		{"a stranger's in a third's", true, func(p place) { p.dir("a", third, 0o755); p.dir("a/b", stranger, 0o755) }, "a/b", "a belongs to user 65533", "and a directory above it to user 65533", "a belongs to user 65533"},
		{"a stranger's link", true, func(p place) { p.dir("a", us, 0o755); p.link("a", "l", stranger) }, "l/x", "l belongs to user 65532", "", "l belongs to user 65532"},
		{"a stranger's link to a link", true, func(p place) { p.dir("a", us, 0o755); p.link("a", "l", stranger); p.link("l", "m", us) }, "m/x", "l belongs to user 65532", "", "l belongs to user 65532"},
		{"a stranger's file", true, func(p place) { p.file("f", stranger) }, "f", "f belongs to user 65532", "", ""},
		{"a stranger's file where all may write", true, func(p place) { p.dir("a", us, sticky); p.file("a/f", stranger) }, "a/f", "f belongs to user 65532", "", "f belongs to user 65532, and others than this user (0) can write to its directory"},
		{"a stranger's link to a file", true, func(p place) { p.file("f", us); p.link("f", "l", stranger) }, "l", "l belongs to user 65532", "", "l belongs to user 65532"},
		{"a stranger's link to nothing", true, func(p place) { p.link("/nothing", "l", stranger) }, "l", "l belongs to user 65532", "", "l belongs to user 65532"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root {
				needRoot(t)
			}
			root := t.TempDir()
			ok(t, os.Chmod(root, 0o700))
			tt.make(place{t, root})
			path := filepath.Join(root, tt.path)
			for _, call := range []struct {
				name string
				err  error
				says string
			}{{"Dir", Dir(path), tt.dir}, {"DirForRoot", DirForRoot(path), tt.asks}, {"File", File(path), tt.isFor}} {
				switch {
				case call.says == "" && call.err != nil:
					t.Errorf("%s: %v", call.name, call.err)
				case call.says != "" && (call.err == nil || !strings.Contains(call.err.Error(), call.says)):
					t.Errorf("%s: %v, want an error that says %q", call.name, call.err, call.says)
				}
			}
		})
	}
}

// Root uses the files of a user only where no third one can write.
func TestUses(t *testing.T) {
	needRoot(t)
	for _, tt := range []struct {
		name      string
		dir, file int
		mode      fs.FileMode
		uses      bool
	}{
		{"root's", 0, 0, 0o777, true},
		{"a user's own", stranger, stranger, 0o755, true},
		{"root's in a user's", stranger, 0, 0o755, true},
		{"a user's in root's", 0, stranger, 0o755, false},
		{"a user's where all may write", 0, stranger, 0o777 | fs.ModeSticky, false},
		{"a user's own, all may write", stranger, stranger, 0o777, false},
		{"a third's in a user's", stranger, third, 0o755, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := place{t, t.TempDir()}
			p.dir("a", tt.dir, tt.mode)
			p.file("a/f", tt.file)
			info, err := os.Lstat(p.path("a/f"))
			ok(t, err)
			if got := Uses(p.path("a/f"), info); got != tt.uses {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestMaps(t *testing.T) {
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": true,
		"0 1000 1\n":                         false,
		"1000 1000 1\n":                      false,
		"0 1000 1\n1 100000 65536\n":         true,
		"65534 65534 1\n":                    true,
		"":                                   false,
		"x\n1 2 y\n":                         false,
	} {
		if got := maps(text, overflowUser); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A directory where others can write may be another's the next time.
func TestDirectoryThatWasReplaced(t *testing.T) {
	needRoot(t)
	p := place{t, t.TempDir()}
	p.dir("a", 0, 0o777)
	p.dir("a/b", 0, 0o700)
	ok(t, Dir(p.path("a/b")))
	ok(t, os.Rename(p.path("a/b"), p.path("a/c")))
	p.dir("a/b", stranger, 0o700)
	if err := Dir(p.path("a/b")); err == nil {
		t.Error("accepted")
	}
}

// Who listens on a socket is ours or root's, or has its directory for himself.
func TestPeer(t *testing.T) {
	needRoot(t)
	p := place{t, t.TempDir()}
	for _, d := range []struct {
		name string
		user int
		mode fs.FileMode
	}{
		{"run", 0, 0o755}, {"run/service", stranger, 0o755}, {"run/service/deep", stranger, 0o755}, {"run/of", third, 0o755},
		{"tmp", 0, 0o777 | fs.ModeSticky}, {"tmp/service", stranger, 0o755}, {"tmp/ours", 0, 0o755}, {"open", stranger, 0o777},
	} {
		p.dir(d.name, d.user, d.mode)
	}
	for dir, accepted := range map[string]bool{
		"run": true, "run/service": true, "run/service/deep": true, "run/of": false,
		"tmp": false, "tmp/service": false, "tmp/ours": true, "open": false, "missing": false,
	} {
		socket := p.path(dir + "/s")
		if err := Peer(socket, stranger); (err == nil) != accepted {
			t.Errorf("%s: %v", dir, err)
		}
		if err := Peer(socket, 0); err != nil {
			t.Errorf("%s: of root: %v", dir, err)
		}
	}
}
