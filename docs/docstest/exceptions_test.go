package docstest

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/proxyserver/config"
)

// docException is a block, or all blocks of a page, that TestDocs neither runs nor writes to a
// file, with the check that is made instead.
type docException struct {
	page, begins string // begins is the first line of the block; "" is any of the page
	why          string
	check        func(t *testing.T, b docBlock)
}

var docExceptions = []docException{
	{
		page: "docs/commands.md",
		why:  "it is what the commands say of themselves",
		// TestCommandReference compares the whole page.
		check: func(t *testing.T, b docBlock) { testedBy(t, "cmd/leasectl/reference_test.go", "TestCommandReference") },
	},
	{
		page: "README.md", begins: "tar -xzf leasectl_*_linux_amd64.tar.gz",
		why: "it installs packages, as root",
		// That test unpacks an archive of make dist, and knows the names of its files.
		check: func(t *testing.T, b docBlock) { testedBy(t, "scripts/dist/install_test.go", "TestInstallLines") },
	},
	{
		page:  "docs/releasing.md",
		why:   "it makes a release",
		check: func(t *testing.T, b docBlock) { testedBy(t, "scripts/dist/releasing_test.go", "TestReleasing") },
	},
	{
		page: "README.md", begins: "$ make demo    # a quarter of a minute: jobs wait, get leases, fail, are killed",
		why:   "CI runs the demo and the tests: this is one of them",
		check: madeFromClone,
	},
	{
		page: "README.md", begins: "$ make build                      # a static program, bin/leasectl",
		why:   "CI builds it",
		check: madeFromClone,
	},
	{
		page: "docs/access.md", begins: "issuers:",
		why:   "its issuers are elsewhere",
		check: isAuth,
	},
	{
		page: "docs/etcd.md", begins: `leasectl serve --listen :8370 --config pools.yaml --auth auth.yaml --tls-cert tls.crt --tls-key tls.key \`,
		why:   "it needs an etcd with certificates",
		check: parses,
	},
	{
		page: "docs/postgres.md", begins: `PGPASSFILE=/etc/leasectl/pgpass leasectl serve --listen :8370 --config pools.yaml --auth auth.yaml --tls-cert tls.crt --tls-key tls.key \`,
		why:   "it needs a PostgreSQL with certificates",
		check: parses,
	},
	{
		page: "docs/recipes.md", begins: "  adapt: {floor: 8, start: 32}",
		why:   "it is a line to add to a pool",
		check: addsToPool,
	},
	{
		page: "docs/limits.md", begins: "$ make bench                # some eight minutes; make bench ROW=handoff runs one row",
		why:   "it takes minutes, and its numbers are those of the machine",
		check: madeFromClone,
	},
}

// Every block of code that is not run has an exception, and every exception has a block.
func TestDocExceptions(t *testing.T) {
	used := make([]bool, len(docExceptions))
	for _, b := range allDocBlocks(t) {
		if b.runs() || b.file() != "" {
			continue
		}
		found := false
		for i, e := range docExceptions {
			if e.page == b.page && (e.begins == "" || e.begins == b.first()) {
				found, used[i] = true, true
				t.Run(filepath.Base(b.page)+"/"+b.section, func(t *testing.T) { e.check(t, b) })
			}
		}
		if !found {
			t.Errorf("%s: the block is neither run nor a file: mark it, or add an exception with what is checked instead:\n%s", b, b.text)
		}
	}
	for i, e := range docExceptions {
		if !used[i] || e.why == "" {
			t.Errorf("%s has no block that begins with %q", e.page, e.begins)
		}
	}
}

// testedBy checks that a file has the named test.
func testedBy(t *testing.T, path, test string) {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	if err != nil || !strings.Contains(string(text), "\nfunc "+test+"(t *testing.T) {") {
		t.Errorf("%s has no %s (%v)", path, test, err)
	}
}

// madeFromClone checks commands that build: the Makefile has the targets, and puts the program into
// a directory of the path that the block sets.
func madeFromClone(t *testing.T, b docBlock) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.text) {
		words := strings.Fields(strings.TrimLeft(line, "$# "))
		switch {
		case words[0] == "make" && regexp.MustCompile(`(?m)^`+words[1]+`:`).Match(makefile):
		case strings.HasPrefix(line, `$ export PATH="$PWD/bin:$PATH" `) && bytes.Contains(makefile, []byte("-o bin/leasectl ")):
		default:
			t.Errorf("%q: make has no such target", line)
		}
	}
}

// parses checks that leasectl accepts the command line.
func parses(t *testing.T, b docBlock) {
	checkCommandLine(t, b.String(), strings.ReplaceAll(b.text, "\\\n", " "))
}

// addsToPool checks a line of YAML as a part of a pool.
func addsToPool(t *testing.T, b docBlock) {
	pools := "resources:\n- type: install\n  min-count: 32\n  max-count: 32\n" + b.text
	if _, warnings, err := config.ParsePools("pools.yaml", []byte(pools)); err != nil || len(warnings) != 0 {
		t.Error(err, warnings)
	}
}

// isAuth reads a block as a file for --auth.
func isAuth(t *testing.T, b docBlock) {
	secrets := map[string][]byte{"alice.token": []byte("a-secret-of-sixteen")}
	if _, err := config.ParseAuth("auth.yaml", []byte(b.text), secrets); err != nil {
		t.Errorf("%s: %v", b, err)
	}
}
