package lockfile_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/leasectl/leasectl/lockfile"
)

// An acquire holds the lock before and after it waits, but not during the wait.
func Example() {
	dir, err := os.MkdirTemp("", "leases")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	h, err := lockfile.OpenHandle(filepath.Join(dir, "handle"))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	err = h.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.State != "" {
			return fmt.Errorf("%s is %s already", h.Path(), tx.State)
		}
		tx.State, tx.RequestID = lockfile.HandleQueued, "4f9d"
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	granted := []lockfile.Lease{{Name: "us-east-1--01", Generation: 7}} // after a while

	err = h.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.RequestID != "4f9d" {
			return fmt.Errorf("somebody released %s meanwhile", h.Path())
		}
		tx.State, tx.Leases = lockfile.HandleHeld, granted
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	names, err := os.ReadFile(h.Path())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(names))
	// Output: us-east-1--01
}
