package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

// docs/wire.md has each path, parameter and type of error of the wire, and the wire's number.
func TestWirePage(t *testing.T) {
	page := readPage(t, "docs/wire.md")
	paths, err := filepath.Glob("../../leaseapi/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:const )?\s*((?:Path|Param|Problem)\w+)\s*=\s*"([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
			found++
			word := strings.TrimPrefix(m[2], "urn:leasectl:problem:")
			if !regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(word) + `([^\w-]|$|ID)`).MatchString(page) {
				t.Errorf("the page does not have %s, %q", m[1], word)
			}
		}
	}
	if found < 40 {
		t.Errorf("found %d constants in leaseapi: there are more", found)
	}
	if !strings.Contains(page, "The number of the wire is "+strconv.Itoa(leaseapi.Wire)+".") {
		t.Errorf("the page does not say that the wire is %d", leaseapi.Wire)
	}
}

// docs/moving.md says correctly how long each form of the step is.
func TestStepLengths(t *testing.T) {
	_, row, _ := strings.Cut(readPage(t, "docs/moving.md"), "\n| lines of code |")
	row, _, _ = strings.Cut(row, "\n")
	var want string
	for _, form := range []string{"exec", "commands", "functions"} {
		lines := 0
		for line := range strings.Lines(readPage(t, "scripts/examples/"+form+".sh")) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines++
			}
		}
		want += " " + strconv.Itoa(lines) + " |"
	}
	if row != want {
		t.Errorf("the page has %q, and the scripts have %q", row, want)
	}
}
