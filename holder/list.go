package holder

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/leasectl/leasectl/lockfile"
)

// SharedList returns the list of names in sharedDir, the directory that the steps of a test
// share. [CanList] finds out whether it can be written.
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

// CanList returns an error if names could not be added to a list later.
func CanList(ctx context.Context, list lockfile.List) error {
	if err := list.CanAppend(ctx); err != nil {
		return fmt.Errorf("--scope test: %w", err)
	}
	return nil
}
