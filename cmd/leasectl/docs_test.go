package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the README and the pages of docs/ show is what happens. Blocks say by their
// first line what they are for:
//
//	```yaml file=NAME      is written to NAME
//	```console run         each line after "$ " is run by bash; what follows, up to
//	                       the next, is what it prints on stdout and stderr
//
// The blocks of a section (##) share a directory, and a proxy with the pools of
// pools.yaml if they have one. In what is printed … stands for anything.
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range strings.Split(string(text), "\n## ") {
			heading, _, _ := strings.Cut(section, "\n")
			blocks := docBlocks(section)
			if len(blocks) == 0 {
				continue
			}
			t.Run(filepath.Base(page)+"/"+strings.TrimLeft(heading, "# "), func(t *testing.T) { runDocs(t, blocks) })
			ran++
		}
	}
	if ran == 0 {
		t.Error("no block is marked to be run")
	}
}

// docBlock is a block of code that is marked.
type docBlock struct {
	file string // that it is written to; "" if it is run
	text string
}

var docFence = regexp.MustCompile("(?ms)^```(\\w+) (run|file=(\\S+))\n(.*?)^```$")

func docBlocks(section string) (blocks []docBlock) {
	for _, m := range docFence.FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, docBlock{file: m[3], text: m[4]})
	}
	return blocks
}

// docCommand is a command line and what it prints.
type docCommand struct{ line, prints string }

func docCommands(t *testing.T, text string) (commands []docCommand) {
	t.Helper()
	for line := range strings.Lines(text) {
		if command, is := strings.CutPrefix(line, "$ "); is {
			commands = append(commands, docCommand{line: command})
			continue
		}
		if len(commands) == 0 {
			t.Fatalf("the block begins with %q, not with a command", line)
		}
		commands[len(commands)-1].prints += line
	}
	return commands
}

func runDocs(t *testing.T, blocks []docBlock) {
	dir := t.TempDir()
	env := os.Environ()
	for _, b := range blocks {
		if b.file != "" {
			if err := os.WriteFile(filepath.Join(dir, b.file), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if b.file == "pools.yaml" {
				program, err := exec.LookPath("leasectl") // this test binary
				if err != nil {
					t.Fatal(err)
				}
				env = newWorldOf(t, program, "--config", filepath.Join(dir, b.file)).env
			}
			continue
		}
		for _, c := range docCommands(t, b.text) {
			cmd := exec.Command("bash", "-c", c.line)
			cmd.Dir, cmd.Env = dir, env
			out, err := cmd.CombinedOutput()
			if !sameButEllipses(c.prints, string(out)) {
				t.Errorf("$ %sprinted (%v)\n%swant\n%s", c.line, err, out, c.prints)
			}
		}
	}
}

// sameButEllipses compares with … in want for anything, and without white space at
// the ends of lines.
func sameButEllipses(want, got string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", ".*")
	return regexp.MustCompile("(?s)^" + pattern + "$").MatchString(strings.TrimSpace(got))
}

// A difference is noticed.
func TestSameButEllipses(t *testing.T) {
	for i, tt := range []struct {
		want, got string
		same      bool
	}{
		{"a … c\n", "a b c\n", true}, {"a … c\n", "a b d\n", false}, {"a.c", "abc", false},
		{"…\nlast\n", "one\ntwo\nlast\n", true}, {"", "x", false}, {"a\nb\n", "a\n", false},
	} {
		if got := sameButEllipses(tt.want, tt.got); got != tt.same {
			t.Error(fmt.Sprint(i), tt)
		}
	}
}
