package holder

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/leasectl/leasectl/lockfile"
)

// Handle, Record and List are those of lockfile.
type (
	Handle = lockfile.Handle
	Record = lockfile.Record
	List   = lockfile.List
)

// States of a record, as lockfile has them.
const (
	StateHeld      = lockfile.StateHeld
	StateReleasing = lockfile.StateReleasing
)

// ErrNewer is that of lockfile: a newer program wrote the handle.
var ErrNewer = lockfile.ErrNewer

// SharedList returns the list of names in sharedDir, the directory that the
// steps of a test share. Whether it can be written is what [CanList] finds out.
func SharedList(sharedDir string) (List, error) {
	if sharedDir == "" {
		return "", invalidf("--scope test: SHARED_DIR is not set: it is the directory whose file leases lists the names")
	}
	dir, err := filepath.Abs(sharedDir)
	if err != nil {
		return "", fmt.Errorf("--scope test: %w", err)
	}
	return List(filepath.Join(dir, "leases")), nil
}

// CanList returns an error if names could not be added to a list later.
func CanList(ctx context.Context, list List) error {
	if err := list.CanAppend(ctx); err != nil {
		return fmt.Errorf("--scope test: %w", err)
	}
	return nil
}
