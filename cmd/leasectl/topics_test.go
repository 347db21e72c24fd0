package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// leasectl help exit-codes explains each exit code of exitcode.go, and docs/troubleshooting.md has
// the same table.
func TestExitCodesAreExplained(t *testing.T) {
	explained := make(map[int]bool)
	for _, row := range exitMeanings {
		for word := range strings.FieldsFuncSeq(row[0], func(r rune) bool { return r == ',' || r == ' ' }) {
			if code, err := strconv.Atoi(word); err == nil {
				explained[code] = true
			}
		}
	}
	codes := exitConstants(t)
	for _, row := range exitTable {
		codes["of "+row.err.Error()] = row.code
	}
	for name, code := range codes {
		if !explained[code] {
			t.Errorf("exit code %d (%s) is not in exitMeanings", code, name)
		}
		delete(codes, name)
	}

	sameRows(t, "docs/troubleshooting.md", "code", exitMeanings)
}

// sameRows compares the table of a page whose first column is head with the help. A link on the
// page counts as its text.
func sameRows(t *testing.T, page, head string, want [][2]string) {
	t.Helper()
	_, table, _ := strings.Cut(readPage(t, page), "\n| "+head+" |")
	table, _, _ = strings.Cut(table, "\n\n")
	var rows [][2]string
	for _, m := range regexp.MustCompile(`(?m)^\| (.*?) \| (.*) \|$`).FindAllStringSubmatch(table, -1) {
		first := regexp.MustCompile(`\[(.*?)\]\(.*?\)`).ReplaceAllString(m[1], "$1")
		rows = append(rows, [2]string{strings.ReplaceAll(first, "`", ""), strings.ReplaceAll(m[2], "`", "")})
	}
	if !slices.Equal(rows, want) {
		t.Errorf("%s has the rows %q, and the help %q", page, rows, want)
	}
}

// exitConstants returns the codes that exitcode.go declares, by name.
func exitConstants(t *testing.T) map[string]int {
	file, err := parser.ParseFile(token.NewFileSet(), "exitcode.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := make(map[string]int)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "exit") || len(spec.Values) != 1 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
			codes[spec.Names[0].Name], _ = strconv.Atoi(literal.Value)
		}
		return true
	})
	if len(codes) < 9 {
		t.Fatalf("found %d codes in exitcode.go", len(codes))
	}
	return codes
}

// leasectl help environment has the variable of each flag, and each variable that exec sets.
// docs/using.md has the same table of the latter.
func TestEnvironmentIsExplained(t *testing.T) {
	root := newRootCommand(newApp(os.Stdin, os.Stdout, os.Stderr))
	text := environmentHelp(root)
	walk(root, func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name := variableOf(f)
			if name != "" && !regexp.MustCompile(`(?m)^  `+name+` +--`+f.Name+`$`).MatchString(text) {
				t.Errorf("--%s of %s: the topic does not have %s", f.Name, cmd.CommandPath(), name)
			}
		})
	})
	source, err := os.ReadFile("../../internal/supervisor/environment.go")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^var leaseVariables = .*$`).FindString(string(source))
	names := regexp.MustCompile(`LEASE\w+`).FindAllString(list, -1)
	if len(names) < 5 {
		t.Fatalf("found %v in the source of exec", names)
	}
	for _, name := range names {
		if !strings.Contains(text, "\n  "+name+" ") {
			t.Errorf("the topic does not have %s, which exec sets", name)
		}
	}
	sameRows(t, "docs/using.md", "variable", commandVariables)
}
