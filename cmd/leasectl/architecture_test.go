package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

// architecture is docs/architecture.md, in a form that can be compared with the code.
type architecture struct {
	text string
	rows [][]string // of its tables, by cell
}

func readArchitecture(t *testing.T) architecture {
	t.Helper()
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	a := architecture{text: string(text)}
	for line := range strings.Lines(a.text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			a.rows = append(a.rows, cells)
		}
	}
	return a
}

// table returns the rows below the row whose first cell is head, up to the next table. Tables may
// be consecutive in a.rows, and a row of dashes follows each head.
func (a architecture) table(t *testing.T, head string) (rows [][]string) {
	t.Helper()
	for i, row := range a.rows {
		if row[0] != head {
			continue
		}
		for j := i + 2; j < len(a.rows) && len(a.rows[j]) == len(row); j++ {
			if j+1 < len(a.rows) && strings.HasPrefix(a.rows[j+1][0], "---") {
				break // the head of the next table
			}
			rows = append(rows, a.rows[j])
		}
		return rows
	}
	t.Fatalf("docs/architecture.md has no table that begins with %q", head)
	return nil
}

var quoted = regexp.MustCompile("`([^`]+)`")

// words returns the texts between back quotes.
func words(text string) (words []string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		words = append(words, m[1])
	}
	return words
}

// TestArchitectureArrows compares the page's table of packages with mayImport, which the imports
// must follow: the same packages, the same arrows, and every arrow runs down.
func TestArchitectureArrows(t *testing.T) {
	listed := make(map[string]int) // row by package
	rows := readArchitecture(t).table(t, "package")
	for i, row := range rows {
		listed[words(row[0])[0]] = i
	}
	for room := range mayImport {
		if _, ok := listed[room]; !ok && !strings.HasPrefix(room, "scripts/bench") {
			t.Errorf("the table has no %s", room)
		}
	}
	for i, row := range rows {
		room, arrows := words(row[0])[0], words(row[2])
		allowed, ok := mayImport[room]
		if !ok {
			t.Errorf("%s is no package of the house", room)
		}
		allowed = slices.DeleteFunc(slices.Clone(allowed), func(to string) bool { return to == "leaseapi" })
		slices.Sort(allowed)
		for _, to := range arrows {
			if below, ok := listed[to]; !ok || below <= i {
				t.Errorf("the arrow from %s to %s does not run down", room, to)
			}
		}
		slices.Sort(arrows)
		if !slices.Equal(arrows, allowed) {
			t.Errorf("%s may use %v, and the table says %v", room, allowed, arrows)
		}
	}
}

// TestArchitectureNames checks that the page names every package and phase, and that the files
// that it names exist.
func TestArchitectureNames(t *testing.T) {
	a := readArchitecture(t)
	names := words(a.text)
	for _, dir := range packages(t) {
		if strings.HasPrefix(dir, "scripts/bench/peers/") {
			dir = "scripts/bench/peers"
		}
		if !slices.Contains(names, dir) {
			t.Errorf("the page does not name the package %s", dir)
		}
	}
	var phases []string
	for _, row := range a.table(t, "phase") {
		phases = append(phases, words(row[0])...)
	}
	if in := constants(t, "../../holder/lease.go", "phase"); !slices.Equal(phases, in) {
		t.Errorf("the page has the phases %v, and holder has %v", phases, in)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".go") {
			if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
				t.Errorf("the page names a file that is gone: %v", err)
			}
		}
	}
}

// TestArchitectureNumbers compares the page's numbers of formats with those of the code.
func TestArchitectureNumbers(t *testing.T) {
	want := []string{
		constant(t, "../../lockfile/format.go", "format"),
		constant(t, "../../proxyserver/store/bolt/table.go", "format"),
		constant(t, "../../proxyserver/store/etcd/lead.go", "format"),
		strconv.Itoa(leaseapi.Wire),
	}
	var got []string
	for _, row := range readArchitecture(t).table(t, "file") {
		got = append(got, row[2])
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has the formats %v, and the code has %v", got, want)
	}
}

// packages returns the folders of the module that have Go files beside tests.
func packages(t *testing.T) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			dir, err := filepath.Rel("../..", filepath.Dir(path))
			if err != nil {
				return err
			}
			if dir = filepath.ToSlash(dir); !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) < 15 {
		t.Errorf("found %d packages: the walk missed the house", len(dirs))
	}
	return dirs
}

// constants returns the names of a type's constants, which are numbered by iota.
func constants(t *testing.T, path, typ string) (names []string) {
	t.Helper()
	ours := false
	for _, spec := range constantSpecs(t, path) {
		if len(spec.Values) > 0 { // else it has the type of the one above
			ident, ok := spec.Type.(*ast.Ident)
			ours = ok && ident.Name == typ
		}
		if ours {
			names = append(names, spec.Names[0].Name)
		}
	}
	return names
}

// constant returns the value of one constant, as it is written.
func constant(t *testing.T, path, name string) string {
	t.Helper()
	for _, spec := range constantSpecs(t, path) {
		if spec.Names[0].Name != name || len(spec.Values) == 0 {
			continue
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			return lit.Value
		}
	}
	t.Fatalf("%s has no constant %s", path, name)
	return ""
}

func constantSpecs(t *testing.T, path string) (specs []*ast.ValueSpec) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.CONST {
			for _, spec := range d.Specs {
				specs = append(specs, spec.(*ast.ValueSpec))
			}
		}
	}
	return specs
}
