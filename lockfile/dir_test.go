package lockfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// The directory to use depends on who could change what is in the one that was
// named, and what was made is used again.
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
