package lockfile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// What is in a state directory is believed: that the process of an unlocked entry is dead, that a token may
// go to the proxy of an entry. So a directory that was copied, as by a checkout, a cache or an image, must
// not be taken for the one where the processes are that its files speak of. The state directory has a key,
// and with it, the birth of the directory in which the key was made: a copy has another.

// stateKey is the content of the cell with the key of a state directory.
type stateKey struct {
	Key []byte `json:"key"`
	Dir string `json:"dir"` // as birthOf says
}

// Check implements [Checked].
func (k stateKey) Check() error {
	if len(k.Key) == 0 || k.Dir == "" {
		return errors.New("it has no key, or not that of a directory")
	}
	return nil
}

// stateKeys are the keys that this process has read or made, by state directory.
var stateKeys sync.Map // of stateKey

func keyCell(dir string) Cell { return CellIn(dir, "key") }

// StateKey returns the secret key of a state directory, nil if it has none. Who has it may read the state directory.
func StateKey(dir string) ([]byte, error) {
	if known, found := stateKeys.Load(dir); found {
		return known.(stateKey).Key, nil
	}
	var k stateKey
	found, err := keyCell(dir).Read(&k)
	if err != nil || !found {
		return nil, err
	}
	stateKeys.Store(dir, k)
	return k.Key, nil
}

// makeStateKey makes the key of a state directory that has none.
func makeStateKey(dir string) error {
	if key, err := StateKey(dir); key != nil || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // for others that make it
	defer cancel()
	return keyCell(dir).Update(ctx, func(tx *CellTx) error {
		var k stateKey
		found, err := tx.Value(&k)
		if err == nil && !found {
			// Asked now that the directory has a file: a lower directory of an overlay has been copied up.
			k = stateKey{Key: []byte(rand.Text()), Dir: birthOf(dir)}
			err = tx.Set(k)
		}
		if err == nil {
			stateKeys.Store(dir, k)
		}
		return err
	})
}

// uncopied returns the directory to use in the place of an existing one of ours: dir itself, or one inside it
// if dir was copied.
func uncopied(dir string) string {
	if !copied(dir) {
		return dir
	}
	if info, err := os.Lstat(dir); err == nil {
		os.Chmod(dir, info.Mode().Perm()) // changes nothing, but has an overlay copy the directory up: it is born then
	}
	return uncopied(filepath.Join(dir, copyPrefix+birthOf(dir))) // which may have been copied, too
}

const copyPrefix = "here-"

// checkKey returns an error if a directory stands in for one whose key cannot be read, or is of a newer program.
// Nothing there is believed, but it may be no copy.
func checkKey(dir string) error {
	if !strings.HasPrefix(filepath.Base(dir), copyPrefix) {
		return nil
	}
	_, err := StateKey(filepath.Dir(dir))
	return err
}

// inodeOf names the inode of a directory; "" if it is missing.
func inodeOf(dir string) string {
	info, err := os.Lstat(dir)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("i%x", info.Sys().(*syscall.Stat_t).Ino)
}

// copied tells whether a directory has state that was made in another one, or that no leasectl made.
func copied(dir string) bool {
	switch key, err := StateKey(dir); {
	case err != nil:
		return true
	case key != nil:
		known, _ := stateKeys.Load(dir)
		return known.(stateKey).Dir != birthOf(dir)
	}
	for _, name := range []string{"intents", "shared", "version1", "local"} { // which are made after the key
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}
