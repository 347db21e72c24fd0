package leaseapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// testdata/names.txt has all names on the wire, and so in the JSON of status: the types of
// bodies with their fields, and the constants with their words. Programs of other versions
// and scripts read these names, so a changed name breaks them, even if all programs of this
// version agree on it. Add new names to the file.
func TestNamesStay(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if fields := fieldNames(n.Type); len(fields) > 0 {
					names = append(names, n.Name.Name+" "+strings.Join(fields, " "))
				}
			case *ast.ValueSpec:
				names = append(names, words(n)...)
			}
			return true
		})
	}
	slices.Sort(names)
	got := strings.Join(names, "\n") + "\n"
	want, err := os.ReadFile("testdata/names.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(want)) {
		if !slices.Contains(names, strings.TrimSuffix(line, "\n")) {
			t.Errorf("it was %s", line)
		}
	}
	if got != string(want) {
		t.Errorf("the names are\n%s", got)
	}
}

// fieldNames returns the JSON names of the fields of a struct.
func fieldNames(of ast.Expr) (names []string) {
	s, ok := of.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, field := range s.Fields.List {
		if field.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// words returns the exported text constants of a declaration, each with its text.
func words(of *ast.ValueSpec) (names []string) {
	for i, value := range of.Values {
		text, ok := value.(*ast.BasicLit)
		if ok && text.Kind == token.STRING && of.Names[i].IsExported() {
			names = append(names, of.Names[i].Name+" "+text.Value)
		}
	}
	return names
}
