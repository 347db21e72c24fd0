package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// install copies programs to a directory, as they arrive on the machines that run them. The
// linker writes a file through a mapping, so its pages in the page cache are small, and each
// start takes some 5 to 10 % longer, the more the larger the program.
func install(dir string, programs ...string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, program := range programs {
		if err := installOne(filepath.Join(dir, filepath.Base(program)), program); err != nil {
			return err
		}
	}
	return nil
}

func installOne(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	// Not io.Copy to the file itself: then the copy may share the pages of the original.
	_, err = io.Copy(struct{ io.Writer }{out}, struct{ io.Reader }{in})
	return errors.Join(err, out.Close())
}
