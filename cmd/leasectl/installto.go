package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

func newInstallToCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "install-to DIR",
		Short: "copy this program into a directory",
		Long: `Install-to copies the running program to DIR/leasectl, and makes DIR if it is not
there. An image that has nothing but leasectl in it has no cp: as an init
container it puts the program into a volume that the step's container mounts. A
program that runs from DIR meanwhile goes on with the file that it was started
from. It prints the path of the copy.`,
		Example: `  leasectl install-to /tools`,
		Args:    oneArg("a directory", "/tools"),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := installTo(args[0])
			if err != nil {
				return fmt.Errorf("install-to: %w", err)
			}
			return a.print("%s\n", path)
		},
	}
}

// installTo copies the running program to dir/leasectl and returns this path. It makes dir if
// needed. The copy appears under its path only when it is complete.
func installTo(dir string) (path string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	from, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer from.Close()
	err = os.MkdirAll(dir, 0o755)
	var to *os.File
	if err == nil {
		to, err = os.CreateTemp(dir, ".leasectl.*.new")
	}
	if err != nil {
		return "", fmt.Errorf("%w: name a directory in which files can be made, such as /tools", err)
	}
	defer func() {
		if err != nil {
			os.Remove(to.Name())
		}
	}()
	_, err = io.Copy(to, from)
	// Everybody may execute the copy, since the step's container often has another user.
	if err := errors.Join(err, to.Chmod(0o755), to.Close()); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "leasectl")
	return path, os.Rename(to.Name(), path)
}
