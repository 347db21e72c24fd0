package docstest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each promise of docs/versions.md names the tests that check it, and these tests exist.
func TestVersionsPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	named := regexp.MustCompile("`(Test\\w+|\\w+\\.txtar)`")
	rows := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(line, "| shown by |\n") {
			continue
		}
		cells := strings.Split(line, " | ")
		names := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(names) == 0 {
			t.Errorf("nothing shows it: %s", line)
		}
		for _, name := range names {
			if !slices.Contains(tests, name[1]) {
				t.Errorf("there is no %s", name[1])
			}
		}
		rows++
	}
	if rows == 0 {
		t.Error("the page promises nothing")
	}
}

// testNames returns the names of the tests and scenarios in the tree.
func testNames(t *testing.T) (names []string) {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case filepath.Ext(path) == ".txtar":
			names = append(names, d.Name())
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range function.FindAllStringSubmatch(string(text), -1) {
				names = append(names, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
