package docstest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/leasectl/leasectl/"

// mayImport lists for each of our packages the packages of ours that it may import. Its tests may
// also import the packages in testMayImport. "internal/" before a name is left out.
var mayImport = map[string][]string{
	"cmd/leasectl":      {"cmd/leasectl/console", "cmd/leasectl/demo", "cmd/leasectl/early", "holder", "holder/dial", "holder/local", "holder/recovery", "holder/shared", "holder/socket", "holder/usage", "leaseapi", "pool", "proxyclient", "proxyserver", "proxyserver/auth", "proxyserver/config", "proxyserver/starter", "proxyserver/store", "proxyserver/store/bolt", "proxyserver/store/etcd", "proxyserver/store/postgres", "proxyserver/store/replicated", "scripts", "supervisor", "trap", "child", "process"},
	"holder":            {"holder/cleanup", "holder/dial", "holder/failpoint", "holder/keeper", "holder/usage", "holder/v1", "leaseapi", "lockfile", "proxyclient", "process"},
	"holder/cleanup":    {},
	"holder/dial":       {"holder/local", "holder/socket", "holder/tokenfrom", "holder/usage", "holder/v1", "leaseapi", "lockfile", "proxyclient"},
	"holder/usage":      {},
	"holder/keeper":     {"holder/cleanup", "holder/dial", "holder/failpoint", "holder/local", "holder/socket", "holder/tokenfrom", "holder/usage", "leaseapi", "lockfile", "proxyclient", "process"},
	"holder/holdertest": {"leaseapi", "lockfile", "wiretest"},
	"holder/recovery":   {"holder", "holder/cleanup", "holder/shared", "holder/v1", "lockfile", "proxyclient"},
	"holder/shared":     {"holder", "holder/cleanup", "holder/dial", "holder/failpoint", "holder/keeper", "holder/service", "holder/usage", "holder/v1", "leaseapi", "lockfile", "proxyclient"},
	"holder/local":      {"holder/socket", "leaseapi", "lockfile", "proxyclient", "process"},
	"holder/failpoint":  {},
	"holder/service":    {"leaseapi", "child"},
	"holder/socket":     {"lockfile"},
	"holder/tokenfrom":  {"proxyclient", "process"},
	"holder/v1":         {"holder/cleanup", "holder/failpoint", "leaseapi", "lockfile", "proxyclient"},
	"supervisor":        {"holder", "holder/shared", "leaseapi", "supervisor/follow", "trap", "child", "process"},
	"leaseapi":          {},
	"lockfile":          {"own", "leaseapi"},
	"pool":              {"leaseapi"},
	"proxyclient":       {"leaseapi", "own", "suspend"},
	"proxyserver":       {"leaseapi", "pool", "proxyserver/auth", "proxyserver/connlimit", "proxyserver/eventlog", "proxyserver/idle", "proxyserver/metrics", "proxyserver/past", "proxyserver/store", "proxyserver/ui", "suspend"},
	"suspend":           {},
	"scripts":           {},
	"trap":              {"sys"},
	"child":             {"trap", "sys"},
	"process":           {"trap", "sys"},

	"cmd/leasectl/campaign": {},
	"cmd/leasectl/clitest":  {"leaseapi", "proxyclient"},
	"cmd/leasectl/console":  {"child", "cmd/leasectl/clitest"},
	"cmd/leasectl/demo":     {"child", "process", "holder/local", "leaseapi", "pool", "proxyclient", "proxyserver"},
	"cmd/leasectl/early":    {},
	"docs/docstest":         {},
	"supervisor/follow":     {},
	"sys":                   {},
	"testenv":               {"sys"},
	"wiretest":              {"leaseapi"},

	"own":           {},
	"testprogram":   {"lockfile", "proxyserver/store/storetest"},
	"examples/test": {},

	"proxyserver/auth":                        {"leaseapi", "pool"},
	"proxyserver/auth/authtest":               {},
	"proxyserver/config":                      {"own", "leaseapi", "pool", "proxyserver/auth"},
	"proxyserver/connlimit":                   {},
	"proxyserver/eventlog":                    {"leaseapi", "pool"},
	"proxyserver/idle":                        {},
	"proxyserver/metrics":                     {"leaseapi", "pool"},
	"proxyserver/store":                       {"pool"},
	"proxyserver/store/bolt":                  {"own", "pool", "proxyserver/store", "proxyserver/store/record"},
	"proxyserver/store/etcd":                  {"suspend", "proxyserver/store", "proxyserver/store/replicated"},
	"proxyserver/store/etcd/etcdtest":         {"testprogram", "proxyserver/store/storetest"},
	"proxyserver/store/etcd/etcdtest/program": {},
	"proxyserver/store/record":                {"pool"},
	"proxyserver/store/postgres":              {"proxyserver/store", "proxyserver/store/replicated"},
	"proxyserver/store/postgres/pgtest":       {"proxyserver/store/storetest"},
	"proxyserver/store/replicated":            {"suspend", "pool", "proxyserver/store", "proxyserver/store/record"},
	"proxyserver/store/replicated/leadtest":   {"pool", "proxyserver/store"},
	"proxyserver/store/replicated/unsteady":   {"proxyserver/store/replicated"},
	"proxyserver/store/storetest":             {},
	"proxyserver/past":                        {"pool"},
	"proxyserver/starter":                     {"own", "proxyserver/config"},
	"proxyserver/ui":                          {"leaseapi", "pool", "proxyserver/auth", "proxyserver/past"},

	// The benchmark of leasectl and its peers is beside the house. It may import every package
	// that it measures.
	"scripts/bench": {"proxyserver/store", "proxyserver/store/bolt", "leaseapi", "pool", "proxyclient", "proxyserver", "proxyserver/store/etcd", "proxyserver/store/postgres", "proxyserver/store/postgres/pgtest", "trap"},
}

// onlyIn lists packages that only some packages of ours may import, since their purpose has one
// place: flock in lockfile, signals in trap, processes below trap, retries in proxyclient, the
// store in proxyserver/store, pages in proxyserver/ui, the command line in cmd.
var onlyIn = map[string][]string{
	"github.com/coreos/go-oidc/v3/oidc":      {"proxyserver/auth"},
	"github.com/go-jose/go-jose/v4":          {"proxyserver/auth", "proxyserver/auth/authtest"},
	"github.com/gofrs/flock":                 {"lockfile"},
	"github.com/hashicorp/go-retryablehttp":  {"proxyclient"},
	"github.com/jackc/pgx/v5/pgconn":         {"proxyserver/store/postgres", "proxyserver/store/postgres/pgtest"},
	"github.com/spf13/cobra":                 {"cmd/leasectl"},
	"github.com/spf13/pflag":                 {"cmd/leasectl"},
	"go.etcd.io/bbolt":                       {"proxyserver/store/bolt"},
	"go.etcd.io/bbolt/errors":                {"proxyserver/store/bolt"},
	"go.yaml.in/yaml/v3":                     {"proxyserver/config"},
	"html/template":                          {"proxyserver/ui"},
	"os/exec":                                {"cmd/leasectl/clitest", "child", "testenv", "testprogram", "proxyserver/store/etcd/etcdtest", "proxyserver/store/postgres/pgtest", "proxyserver/store/storetest"},
	"os/signal":                              {"cmd/leasectl/clitest", "trap", "child", "process"}, // SIGTSTP of a job, SIGCHLD of orphans
	"github.com/rogpeppe/go-internal/script": {},
}

// TestImportsRunDownwards compares the imports of every package with mayImport and onlyIn. No
// package imports cmd/leasectl.
func TestImportsRunDownwards(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		files++
		checkImports(t, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("looked at %d files: the walk missed the house", files)
	}
}

func checkImports(t *testing.T, path string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel("../..", path)
	if err != nil {
		t.Fatal(err)
	}
	room := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(rel)), "internal/")
	test := strings.HasSuffix(path, "_test.go")
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if ours, ok := strings.CutPrefix(imported, module); ok {
			ours = strings.TrimPrefix(ours, "internal/")
			allowed, known := mayImport[room]
			if !known {
				t.Errorf("%s: the house has no room %s", rel, room)
			}
			// An external test may import the package that it tests. A test may also import
			// the package of a peer that it starts.
			if !slices.Contains(allowed, ours) && !(test && (ours == room || slices.Contains(testMayImport[room], ours))) {
				t.Errorf("%s: %s may not import %s", rel, room, ours)
			}
			continue
		}
		tool := strings.HasPrefix(room, "scripts/") // a program for developers of leasectl
		if rooms, ok := onlyIn[imported]; ok && !test && !tool && !slices.Contains(rooms, room) {
			t.Errorf("%s: %s belongs to %v", rel, imported, rooms)
		}
	}
}

// testMayImport lets the tests of the clients run against the real server, the tests of the server
// on a real store, the tests of the whole program read its files and stores, and the tests of trap share their
// processes.
var testMayImport = map[string][]string{
	"holder": {"holder/holdertest", "wiretest"}, "holder/recovery": {"holder/dial", "holder/holdertest", "leaseapi"}, "holder/shared": {"holder/holdertest"}, "supervisor": {"holder/dial", "proxyclient", "wiretest"}, "proxyclient": {"pool", "proxyserver", "wiretest"}, "proxyserver": {"proxyserver/auth/authtest", "proxyserver/config", "proxyserver/store/bolt", "proxyserver/store/replicated", "proxyserver/store/replicated/unsteady", "wiretest"}, "cmd/leasectl": {"cmd/leasectl/clitest", "holder/cleanup", "holder/v1", "lockfile", "proxyserver/auth/authtest", "proxyserver/store/replicated/unsteady", "wiretest"},
	"cmd/leasectl/campaign": {"cmd/leasectl/clitest", "holder/recovery", "leaseapi", "lockfile", "proxyclient", "proxyserver/auth/authtest", "proxyserver/store/etcd/etcdtest", "proxyserver/store/postgres/pgtest", "proxyserver/store/storetest", "process", "wiretest"},
	"docs/docstest":         {"cmd/leasectl/clitest", "leaseapi", "proxyserver/config", "proxyserver/starter"},
	"proxyserver/auth":      {"proxyserver/auth/authtest"}, "proxyserver/ui": {"proxyserver/config"},
	"examples/test": {"testprogram"},
	"trap":          {"testenv"}, "child": {"testenv", "process"}, "process": {"testenv"},
	"proxyserver/store/etcd":       {"pool", "proxyserver/store/etcd/etcdtest", "proxyserver/store/replicated/leadtest"},
	"proxyserver/store/postgres":   {"pool", "proxyserver/store/postgres/pgtest", "proxyserver/store/replicated/leadtest"},
	"proxyserver/store/replicated": {"proxyserver/store/replicated/leadtest", "proxyserver/store/replicated/unsteady"},
}
