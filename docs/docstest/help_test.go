package docstest

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// commandHelp is what the help of a command says.
type commandHelp struct {
	flags    map[string]bool
	examples string
}

// helps are the commands of the program that was built, by name; "" is leasectl itself.
var helps struct {
	once sync.Once
	of   map[string]commandHelp
}

// allHelp asks the program for its commands and their help.
func allHelp(t *testing.T) map[string]commandHelp {
	t.Helper()
	helps.once.Do(func() {
		program := clitest.BuildAsTests(t)
		ask := func(args ...string) string {
			out, err := exec.Command(program, args...).Output()
			if err != nil {
				t.Fatalf("leasectl %v: %v", args, err)
			}
			return string(out)
		}
		of := map[string]commandHelp{
			"":       parseHelp(ask("help")),
			"keeper": parseHelp(ask("help", "keeper")), // no user calls it, but users see its processes
		}
		for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*)\t`).FindAllStringSubmatch(ask("__complete", ""), -1) {
			of[m[1]] = parseHelp(ask("help", m[1]))
		}
		helps.of = of
	})
	if len(helps.of) < 15 {
		t.Fatalf("leasectl has the commands %v only", slices.Sorted(maps.Keys(helps.of)))
	}
	return helps.of
}

var (
	helpHeading = regexp.MustCompile(`(?m)^[A-Z].*:$`)
	helpFlag    = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z][a-z0-9-]*)`)
)

// parseHelp reads the help of a command. Its sections have headings that begin in the first column.
func parseHelp(text string) commandHelp {
	h := commandHelp{flags: make(map[string]bool)}
	headings, sections := helpHeading.FindAllString(text, -1), helpHeading.Split(text, -1)[1:]
	for i, heading := range headings {
		if heading == "Examples:" {
			h.examples = sections[i]
			continue
		}
		for _, m := range helpFlag.FindAllStringSubmatch(sections[i], -1) {
			h.flags[m[1]] = true
		}
	}
	return h
}

// checkCommandLine checks the leasectl command lines of a text, one a line: the command and its
// flags must exist.
func checkCommandLine(t *testing.T, where, text string) {
	t.Helper()
	commands := allHelp(t)
	for line := range strings.Lines(text) {
		_, line, found := strings.Cut(line, "leasectl ")
		if !found {
			continue
		}
		line, _, _ = strings.Cut(line, " -- ")
		words := strings.Fields(strings.NewReplacer("'", " ", ")", " ", "(", " ", "[", " ", "]", " ", "|", " ").Replace(line))
		command := "" // the first word that is no flag
		if i := slices.IndexFunc(words, func(word string) bool { return !strings.HasPrefix(word, "-") }); i >= 0 {
			command = words[i]
		}
		help, is := commands[command]
		if !is {
			t.Errorf("%s: %q: there is no command %q", where, line, command)
			continue
		}
		for _, word := range words {
			name, isFlag := strings.CutPrefix(word, "--")
			name, _, _ = strings.Cut(name, "=")
			if isFlag && name != "" && !help.flags[name] {
				t.Errorf("%s: %q has --%s, which leasectl %s has not", where, line, name, command)
			}
		}
	}
}

// The commands and flags in the examples of the help exist.
func TestExamplesInHelp(t *testing.T) {
	examples := 0
	for name, help := range allHelp(t) {
		examples += strings.Count(help.examples, "leasectl ")
		checkCommandLine(t, "leasectl help "+name, help.examples)
	}
	if examples < 20 {
		t.Errorf("the help has %d examples: there are more", examples)
	}
}
