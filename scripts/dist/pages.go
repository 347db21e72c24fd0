package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// pages are the files of the tree that people read, by their paths: the README and what
// its links lead to, so that they lead there in an archive, too. Links into the code are
// not among them.
func pages() ([]string, error) {
	var paths []string
	for _, pattern := range []string{
		"*.md", "LICENSE", "docs/*", "examples/*.md", "examples/*/*", "scripts/client.sh", "scripts/trap.sh",
		"scripts/step-example.sh", "scripts/examples/*.sh",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no file is called %s: this is not the top directory of the source", pattern)
		}
		for _, path := range found {
			if !strings.HasPrefix(path, "examples/test/") {
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}
