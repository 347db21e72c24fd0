package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun runs the tests of a module with tests that pass, are skipped, fail and panic, and of one
// that does not build.
func TestRun(t *testing.T) {
	const head = "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Args\n\n"
	for _, tt := range []struct {
		name, tests string
		ok          bool
		want, not   []string
	}{
		{name: "passes", ok: true,
			tests: `func TestA(t *testing.T) { t.Log("unseen") }`,
			want:  []string{"ok  \texample.com/p", "no test was skipped\n"},
			not:   []string{"unseen", "TestA", "PASS"}},
		{name: "skips", ok: true,
			tests: `func TestA(t *testing.T) { t.Log("first"); t.Skip("no moon: wait") }
func TestB(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Skip("no moon: wait") }) }
func TestC(t *testing.T) { t.SkipNow() }`,
			want: []string{"ok  \texample.com/p", "3 tests were skipped:\n     2  no moon: wait\n     1  no reason given\n"},
			not:  []string{"first"}},
		{name: "fails",
			tests: `func TestA(t *testing.T) { t.Log("unseen") }
func TestB(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Error("wrong") }) }
func TestC(t *testing.T) { t.Skip("no moon") }`,
			want: []string{"--- FAIL: TestB/sub", "wrong", "FAIL\texample.com/p", "1 tests were skipped:\n     1  no moon\n"},
			not:  []string{"unseen", "TestA"}},
		{name: "dies",
			tests: `func TestA(t *testing.T) { println("last words"); os.Exit(3) }`,
			want:  []string{"last words", "FAIL\texample.com/p"}},
		{name: "does not build",
			tests: `func TestA(t *testing.T) { undefined() }`,
			want:  []string{"undefined: undefined", "FAIL\texample.com/p"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"go.mod": "module example.com/p\n\ngo 1.26\n", "p_test.go": head + tt.tests + "\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			var out strings.Builder
			if err := run([]string{"./..."}, &out, &out); (err == nil) != tt.ok {
				t.Errorf("the run ended with %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("it did not print %q", want)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(out.String(), not) {
					t.Errorf("it printed %q", not)
				}
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}
