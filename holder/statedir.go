package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/leasectl/leasectl/lockfile"
)

// makeStateDir makes the state directory, or says why it cannot be used and where
// another is set.
func makeStateDir(dir string) error {
	if err := lockfile.MakeDir(dir); err != nil {
		return stateDirError(err)
	}
	return nil
}

func stateDirError(err error) error {
	return fmt.Errorf("state directory: %w (LEASECTL_STATE_DIR names another)", err)
}

// checkStateDir reports why what is at the place of the state directory cannot be
// one. It makes nothing: without a directory there is no state.
func checkStateDir(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return makeStateDir(dir)
}
