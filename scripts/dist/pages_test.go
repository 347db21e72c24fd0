package main

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The links of the pages in an archive lead to files of the archive.
func TestLinksInArchive(t *testing.T) {
	t.Chdir("../..")
	if _, err := git("rev-parse"); err != nil {
		t.Skipf("this is no clone: %v", err)
	}
	files, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range files {
		if !strings.HasSuffix(page, ".md") {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)\s#]+)`).FindAllStringSubmatch(string(text), -1) {
			to := path.Join(path.Dir(page), m[1])
			if strings.Contains(m[1], "://") || to == "leaseapi" { // the code is not in an archive
				continue
			}
			links++
			if !slices.ContainsFunc(files, func(file string) bool { return file == to || strings.HasPrefix(file, to+"/") }) {
				t.Errorf("%s leads to %s, which no archive has", page, to)
			}
		}
	}
	if links < 30 {
		t.Errorf("found %d links: the pages have more", links)
	}
}
