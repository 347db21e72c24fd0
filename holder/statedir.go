package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/leasectl/leasectl/lockfile"
)

// makeStateDir makes the state directory. The error names the variable that sets another.
func makeStateDir(dir string) error {
	if err := lockfile.MakeDir(dir); err != nil {
		return stateDirError(err)
	}
	return nil
}

func stateDirError(err error) error {
	return fmt.Errorf("state directory: %w (LEASECTL_STATE_DIR names another)", err)
}

// checkStateDir is makeStateDir if the directory exists. If not, there is no state, which is no
// error.
func checkStateDir(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return makeStateDir(dir)
}
