package holder

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/leasectl/leasectl/lockfile"
)

// SharedList returns the list of names in sharedDir, the directory that the steps of a test
// share. The error is [ErrInvalid] if sharedDir is "". It does not check whether the list can
// be written: [Holder.Acquire] does.
func SharedList(sharedDir string) (lockfile.List, error) {
	if sharedDir == "" {
		return "", invalidf("--scope test: SHARED_DIR is not set: it is the directory whose file leases lists the names")
	}
	dir, err := filepath.Abs(sharedDir)
	if err != nil {
		return "", fmt.Errorf("--scope test: %w", err)
	}
	return lockfile.List(filepath.Join(dir, "leases")), nil
}

// checkList returns an error if names could not be added to a list later.
func checkList(ctx context.Context, list lockfile.List) error {
	if err := list.CanAppend(ctx); err != nil {
		return fmt.Errorf("--scope test: %w", err)
	}
	return nil
}
