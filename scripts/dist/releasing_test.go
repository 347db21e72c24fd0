package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Each command of docs/releasing.md is a target of make or a line of check.sh, or runs here in
// a repository of the test.
func TestReleasing(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	makefile, check := read("Makefile"), read("scripts/dist/check.sh")
	commands := releaseCommands(read("docs/releasing.md"))
	if len(commands) < 8 {
		t.Fatalf("the page has the commands %q only", commands)
	}
	repository(t)
	do(t, "git", "init", "--quiet", "--bare", "origin.git")
	do(t, "git", "remote", "add", "origin", "origin.git")
	for _, c := range commands {
		words := strings.Fields(c)
		switch words[0] {
		case "make":
			if !strings.Contains(makefile, "\n"+words[1]+":") {
				t.Errorf("%s: there is no such target", c)
			}
		case "git":
			do(t, "sh", "-c", strings.ReplaceAll(c, "X.Y.Z", "1.2.3"))
		default:
			if run := regexp.MustCompile(`(?m)(^|[ (])` + regexp.QuoteMeta(checked(words)) + " "); !run.MatchString(check) {
				t.Errorf("%s: check.sh does not run it", c)
			}
		}
	}
	if tag, err := git("--git-dir=origin.git", "tag"); err != nil || tag != "v1.2.3" {
		t.Errorf("the tag that was published is %q, %v", tag, err)
	}
}

// checked is the part of a command that check.sh must have: the words that are the same for
// each release.
func checked(words []string) string {
	for i, w := range words {
		if i > 0 && (strings.ToUpper(w) == w || strings.Contains(w, "X.Y.Z")) {
			return strings.Join(words[:i], " ")
		}
	}
	return strings.Join(words, " ")
}

var shellBlock = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$")

// releaseCommands are the lines of the shell blocks.
func releaseCommands(page string) (commands []string) {
	for _, block := range shellBlock.FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}
