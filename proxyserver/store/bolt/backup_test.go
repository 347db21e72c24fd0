package bolt

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A backup replaces an earlier one when it is complete; half of one does not, and
// nothing else is left.
func TestSaveBackup(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "backup")
	write := func(text string, failure error) func(io.Writer) (int64, error) {
		return func(w io.Writer) (int64, error) {
			n, err := io.WriteString(w, text)
			return int64(n), errors.Join(err, failure)
		}
	}
	cut := errors.New("cut")
	for _, c := range []struct {
		text string
		err  error
		want string
	}{{"first", nil, "first"}, {"half", cut, "first"}, {"second", nil, "second"}} {
		n, err := SaveBackup(path, write(c.text, c.err))
		if n != int64(len(c.text)) || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v", c.text, n, err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != c.want {
			t.Errorf("after %s: %q, %v", c.text, got, err)
		}
		if files, _ := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("after %s: %v", c.text, files)
		}
	}
}
