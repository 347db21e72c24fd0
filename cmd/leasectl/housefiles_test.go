package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mayCircle are the packages whose files still refer to each other in circles.
var mayCircle []string

// TestFilesFormNoCircle checks that the files of every package have an order from the public down:
// if a file uses another file's declarations, no path of uses leads back. So a reader who follows
// the calls goes in one direction.
func TestFilesFormNoCircle(t *testing.T) {
	for room := range mayImport {
		if strings.HasPrefix(room, "scripts") || slices.Contains(mayCircle, room) {
			continue // beside the house, or not in order yet
		}
		uses := fileUses(t, filepath.Join("../..", room))
		for _, circle := range circles(uses) {
			t.Errorf("%s: %d files form a circle: %s", room, len(circle), strings.Join(circle, " "))
			for _, from := range circle {
				for _, to := range circle {
					if names := uses[from][to]; len(names) > 0 {
						t.Errorf("  %s uses of %s: %s", from, to, strings.Join(slices.Sorted(maps.Keys(names)), " "))
					}
				}
			}
		}
	}
}

// mapped are the packages whose comment names their files in order.
var mapped = []string{"holder", "lockfile", "proxyclient", "proxyserver", "proxyserver/eventlog", "proxyserver/idle", "supervisor", "supervisor/follow", "trap/child", "trap/process"}

// TestFilesStandInOrder checks the list of files in a package comment: it names each file, and
// after it all files that the file uses.
func TestFilesStandInOrder(t *testing.T) {
	for _, room := range mapped {
		text, err := os.ReadFile(filepath.Join("../..", room, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, list, _ := strings.Cut(string(text), "rom the public down")
		named := regexp.MustCompile(`[\w*]+\.go`).FindAllString(list, -1)
		place := func(file string) int {
			return slices.IndexFunc(named, func(pattern string) bool { is, _ := filepath.Match(pattern, file); return is })
		}
		for from, uses := range fileUses(t, filepath.Join("../..", room)) {
			if place(from) < 0 {
				t.Errorf("%s: the package comment does not name %s", room, from)
			}
			for to, names := range uses {
				if place(from) > place(to) {
					t.Errorf("%s: %s is named after %s, of which it uses %s", room, from, to, strings.Join(slices.Sorted(maps.Keys(names)), " "))
				}
			}
		}
	}
}

// fileUses returns, for each file of a package, the names that it uses from each other file. It
// reads the files for this system, without tests.
func fileUses(t *testing.T, dir string) map[string]map[string]map[string]bool {
	t.Helper()
	fset := token.NewFileSet()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_darwin.go") || strings.HasSuffix(name, "_other.go") || name == "failpoint_on.go" {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	// The declarations of other packages do not matter here. So these packages are empty, and
	// the resulting errors are ignored.
	conf := types.Config{Importer: emptyPackages{}, Error: func(error) {}}
	pkg, _ := conf.Check(dir, fset, files, info)

	uses := make(map[string]map[string]map[string]bool)
	file := func(p token.Pos) string { return filepath.Base(fset.Position(p).Filename) }
	for ident, object := range info.Uses {
		if object.Pkg() != pkg || !object.Pos().IsValid() {
			continue
		}
		from, to := file(ident.Pos()), file(object.Pos())
		if from == to {
			continue
		}
		if uses[from] == nil {
			uses[from] = make(map[string]map[string]bool)
		}
		if uses[from][to] == nil {
			uses[from][to] = make(map[string]bool)
		}
		uses[from][to][object.Name()] = true
	}
	return uses
}

// circles returns the groups of files that use each other in a circle.
func circles(uses map[string]map[string]map[string]bool) (groups [][]string) {
	reach := make(map[string]map[string]bool)
	var visit func(from, at string)
	visit = func(from, at string) {
		for to := range uses[at] {
			if !reach[from][to] {
				reach[from][to] = true
				visit(from, to)
			}
		}
	}
	files := slices.Sorted(maps.Keys(uses))
	for _, f := range files {
		reach[f] = make(map[string]bool)
		visit(f, f)
	}
	seen := make(map[string]bool)
	for _, f := range files {
		if seen[f] || !reach[f][f] {
			continue
		}
		var group []string
		for _, g := range files {
			if reach[f][g] && reach[g][f] {
				group, seen[g] = append(group, g), true
			}
		}
		groups = append(groups, group)
	}
	return groups
}

// emptyPackages imports every package as an empty one.
type emptyPackages struct{}

func (emptyPackages) Import(path string) (*types.Package, error) {
	pkg := types.NewPackage(path, filepath.Base(path))
	pkg.MarkComplete()
	return pkg, nil
}
