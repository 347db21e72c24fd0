package lockfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// The directory to use depends on who could change the files in the directory that the user
// named. A directory that was made is used again.
func TestPrivateDir(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mode   fs.FileMode // 0: it is missing
		uid    int
		inside bool
	}{
		{"missing", 0, 0, false},
		{"ours", 0o700, os.Geteuid(), false},
		{"ours, others may look", 0o755, os.Geteuid(), false},
		{"ours, our group may write", 0o770, os.Geteuid(), true},
		{"ours, all may write", 0o777 | fs.ModeSticky, os.Geteuid(), true},
		{"a stranger's", 0o700, stranger, false},
		{"a stranger's, all may write", 0o777, stranger, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			if tt.mode != 0 {
				if tt.uid != os.Geteuid() || tt.uid == stranger {
					needRoot(t)
				}
				ok(t, os.Mkdir(dir, 0o700))
				ok(t, os.Chown(dir, tt.uid, -1))
				ok(t, os.Chmod(dir, tt.mode))
			}
			got := PrivateDir(dir)
			if inside := filepath.Dir(got) == dir; inside != tt.inside || !inside && got != dir {
				t.Fatalf("it is %s", got)
			}
			if tt.uid == os.Geteuid() {
				ok(t, MakeDir(got))
				if again := PrivateDir(got); again != got {
					t.Errorf("and then %s", again)
				}
			}
		})
	}
	link := filepath.Join(t.TempDir(), "link")
	ok(t, os.Symlink(os.TempDir(), link))
	if got := PrivateDir(link); got != link {
		t.Errorf("a symlink leads to %s", got)
	}
}

// A copy of a state directory, and one that no leasectl made, are not used; a directory that was moved is. One whose key
// cannot be read may be no copy: that is an error.
func TestCopiedStateDir(t *testing.T) {
	in := t.TempDir()
	made, moved := filepath.Join(in, "made"), filepath.Join(in, "moved")
	ok(t, MakeStateDir(made))
	if got := PrivateDir(made); got != made {
		t.Errorf("that which was made is %s", got)
	}
	key, err := os.ReadFile(string(keyCell(made)))
	ok(t, err)
	ok(t, os.Rename(made, moved))
	if got := PrivateDir(moved); got != moved {
		t.Errorf("that which was moved is %s", got)
	}
	for _, name := range []string{"copied", "forged", "broken", "newer"} {
		dir := filepath.Join(in, name)
		ok(t, os.Mkdir(dir, 0o700))
		switch name {
		case "copied":
			ok(t, os.WriteFile(string(keyCell(dir)), key, 0o600))
		case "forged":
			ok(t, os.Mkdir(filepath.Join(dir, "intents"), 0o700))
		case "broken":
			ok(t, os.WriteFile(string(keyCell(dir)), []byte("{}\n"), 0o600))
		case "newer":
			ok(t, os.WriteFile(string(keyCell(dir)), []byte(`{"format":9}`+"\n"), 0o600))
		}
		got := PrivateDir(dir)
		if filepath.Dir(got) != dir {
			t.Errorf("%s is used", name)
		}
		if wrong := map[string]string{"broken": "key.cell: broken", "newer": "key.cell: written by a newer leasectl"}[name]; wrong != "" {
			wantError(t, MakeStateDir(got), wrong)
			wantError(t, CheckStateDir(got), wrong)
			continue
		}
		ok(t, MakeStateDir(got))
		stateKeys.Clear() // as in another process
		if again := PrivateDir(dir); again != got || PrivateDir(got) != got {
			t.Errorf("%s is %s, and then %s", name, got, again)
		}
		if name == "copied" { // with what it was used for meanwhile
			again := filepath.Join(in, "copied again")
			ok(t, os.CopyFS(again, os.DirFS(dir)))
			for _, d := range []string{again, filepath.Join(again, filepath.Base(got))} {
				ok(t, os.Chmod(d, 0o700)) // whatever the umask is
			}
			ok(t, os.Rename(filepath.Join(again, filepath.Base(got)), filepath.Join(again, "here-"+birthOf(again)))) // as who knows its birth would
			if got := PrivateDir(again); filepath.Dir(filepath.Dir(got)) != again {
				t.Errorf("a copy of what was used is used: %s", got)
			}
		}
	}
}

func TestMakeDir(t *testing.T) {
	type test struct {
		name string
		make func(t *testing.T, path string) // nil: it is missing
		says string                          // "": accepted
	}
	dir := func(mode fs.FileMode) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			ok(t, os.Mkdir(path, 0o700))
			ok(t, os.Chmod(path, mode))
		}
	}
	for _, tt := range []test{
		{"missing", nil, ""},
		{"ours", dir(0o700), ""},
		{"others may look", dir(0o755), ""},
		{"group may write", dir(0o770), "chmod 700"},
		{"others may write", dir(0o702), "chmod 700"},
		{"sticky", dir(0o777 | fs.ModeSticky), "chmod 700"},
		{"owner may not", dir(0o500), "cannot be used by its owner"},
		{"file", func(t *testing.T, path string) { write(t, path, "") }, "not a directory"},
		{"symlink", func(t *testing.T, path string) { ok(t, os.Symlink(t.TempDir(), path)) }, "is a symlink"},
		{"dangling symlink", func(t *testing.T, path string) { ok(t, os.Symlink("nowhere", path)) }, "is a symlink"},
		{"stranger's", func(t *testing.T, path string) {
			needRoot(t)
			ok(t, os.Mkdir(path, 0o700))
			ok(t, os.Chown(path, stranger, stranger))
		}, "belongs to user 65534, and this is user 0"},
	} {
		for _, slash := range []string{"", "/"} {
			t.Run(tt.name+slash, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state")
				if tt.make != nil {
					tt.make(t, path)
				}
				before, _ := os.Lstat(path)
				err := MakeDir(path + slash)
				after, lerr := os.Lstat(path)
				ok(t, lerr)
				if before != nil && before.Mode() != after.Mode() {
					t.Errorf("mode changed from %v to %v", before.Mode(), after.Mode())
				}
				if tt.says == "" {
					ok(t, err)
					if before == nil && after.Mode() != fs.ModeDir|0o700 {
						t.Errorf("made with mode %v", after.Mode())
					}
					return
				}
				wantError(t, err, tt.says)
				wantError(t, err, path)
			})
		}
	}

	t.Run("one level only", func(t *testing.T) {
		err := MakeDir(filepath.Join(t.TempDir(), "a", "b"))
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v, want ErrNotExist", err)
		}
	})
	t.Run("umask", func(t *testing.T) {
		old := syscall.Umask(0)
		defer syscall.Umask(old)
		path := filepath.Join(t.TempDir(), "state")
		ok(t, MakeDir(path))
		ok(t, MakeDir(path))
	})
}

// A file that exists but cannot be looked at is not skipped.
func TestAgedFilesThatCannotBeLookedAt(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.json", "gone.json", "bad.json", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := filesIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range found {
		switch f.Name() {
		case "gone.json":
			found[i] = unseen{f, fs.ErrNotExist}
		case "bad.json":
			found[i] = unseen{f, syscall.EIO}
		}
	}
	var names []string
	for _, f := range aged(dir, found, ".json") {
		names = append(names, filepath.Base(f.path))
	}
	if !slices.Equal(names, []string{"bad.json", "a.json"}) {
		t.Errorf("%q", names)
	}
}

// unseen is a directory entry that cannot be looked at.
type unseen struct {
	fs.DirEntry
	err error
}

func (u unseen) Info() (fs.FileInfo, error) { return nil, u.err }
