package docstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// TestDocs runs the commands of the pages and compares their output with the pages. The first line
// of a block says what to do with it:
//
//	```yaml file=NAME      is written to NAME
//	```console run         each line after "$ ", and the lines after "> " below it, are
//	                       run by bash; what follows, up to the next, is what it prints
//	                       on stdout and stderr
//
// Every other block of code is in docExceptions, with the reason why it is not run.
//
// The blocks of a section (##) share a folder, and they share a shell and a proxy up to the next
// file pools.yaml, which starts a new proxy with these pools. Without such a file the pool is
// install=1. LEASE_PROXY_SERVER_URL is the proxy's socket, PROXY its address for HTTP. In the
// output … stands for anything, a time of day for any time of day, and /tmp/try for the folder.
func TestDocs(t *testing.T) {
	sections := make(map[string][]docBlock)
	var order []string
	for _, b := range allDocBlocks(t) {
		if !b.runs() && b.file() == "" {
			continue
		}
		name := filepath.Base(b.page) + "/" + b.section
		if sections[name] == nil {
			order = append(order, name)
		}
		sections[name] = append(sections[name], b)
	}
	if len(order) < 13 {
		t.Errorf("found %d sections with blocks to run: the pages have more", len(order))
	}
	for _, name := range order {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runSection(t, sections[name])
		})
	}
}

// docCommand is a command line and what it prints.
type docCommand struct{ line, prints string }

func docCommands(t *testing.T, b docBlock) (commands []docCommand) {
	t.Helper()
	for line := range strings.Lines(b.text) {
		last := len(commands) - 1
		if command, is := strings.CutPrefix(line, "$ "); is {
			commands = append(commands, docCommand{line: command})
		} else if last < 0 {
			t.Fatalf("%s begins with %q, not with a command", b, line)
		} else if more, is := strings.CutPrefix(line, "> "); is && commands[last].prints == "" {
			commands[last].line += more
		} else {
			commands[last].prints += line
		}
	}
	return commands
}

// moreTools finds the programs on the pages that a machine may lack.
var moreTools = regexp.MustCompile(`(?m)(?:^|[\s|;(])(curl|jq|flock) `)

// runSection runs the blocks of a section, with a new shell after each change of the pools.
func runSection(t *testing.T, blocks []docBlock) {
	dir := t.TempDir()
	// The step on the pages runs this installer.
	installer := "#!/bin/sh\necho 'level=info msg=\"Creating infrastructure resources...\"'\necho 'level=info msg=\"Install complete!\"'\n"
	writeDocFile(t, dir, "bin/openshift-install", installer, 0o700)
	serve := []string{"--pool", "install=1"}
	var commands []docCommand
	for _, b := range blocks {
		for _, m := range moreTools.FindAllStringSubmatch(b.text, -1) {
			need(t, m[1])
		}
		if b.file() == "pools.yaml" {
			runShell(t, dir, serve, commands)
			commands = nil
			serve = []string{"--config", filepath.Join(dir, "pools.yaml")}
		}
		if b.file() != "" {
			writeDocFile(t, dir, b.file(), b.text, 0o600)
			continue
		}
		commands = append(commands, docCommands(t, b)...)
	}
	runShell(t, dir, serve, commands)
}

func writeDocFile(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// need skips t if a program is not installed. In CI, where all programs are installed, t fails.
func need(t *testing.T, program string) {
	t.Helper()
	_, err := exec.LookPath(program)
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is missing: install the package of that name", program)
	default:
		t.Skipf("%s is missing: install the package of that name", program)
	}
}

// quotedPath finds a path that is quoted for the shell since the folder has a space in it.
var quotedPath = regexp.MustCompile(`'(/tmp/try[^' ]*)'`)

// runShell runs commands in one shell beside a new proxy, and compares what each
// prints.
func runShell(t *testing.T, dir string, serve []string, commands []docCommand) {
	t.Helper()
	if len(commands) == 0 {
		return
	}
	const end = "\x1e" // the end of a command's output
	var script strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&script, "%s\nprintf %q\n", strings.TrimSuffix(c.line, "\n"), end)
	}
	writeDocFile(t, dir, "bin/session.sh", script.String(), 0o600)
	program := clitest.BuildAsTests(t)
	w := clitest.NewWorldOf(t, program, append(serve, "--listen", "127.0.0.1:0")...)
	cmd := exec.Command("bash", filepath.Join(dir, "bin/session.sh"))
	cmd.Dir = dir
	cmd.Env = append(w.Env, "PROXY="+httpAddress(t, w), "no_proxy=127.0.0.1", "PATH="+filepath.Join(dir, "bin")+":"+filepath.Dir(program)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	stopLocal(t, w.Path("state"))
	text := strings.ReplaceAll(string(out), dir, "/tmp/try")
	if strings.Contains(dir, " ") {
		text = quotedPath.ReplaceAllString(text, "$1")
	}
	printed := strings.Split(text, end)
	if len(printed) != len(commands)+1 {
		t.Fatalf("the shell ended (%v) after %d of %d commands:\n%s", err, len(printed)-1, len(commands), out)
	}
	for i, c := range commands {
		if !sameOutput(c.prints, printed[i]) {
			t.Errorf("$ %sprinted\n%s\nwant\n%s\nproxy:\n%s", c.line, printed[i], c.prints, w.Log)
		}
	}
}

// httpAddress returns the address of a proxy that listens on a free port.
func httpAddress(t *testing.T, w *clitest.World) string {
	t.Helper()
	address := regexp.MustCompile(`listening on (http://[^ "]+)`)
	w.Await("the proxy to listen on a port", func() bool { return address.MatchString(w.Log.String()) })
	return address.FindStringSubmatch(w.Log.String())[1]
}

// stopLocal ends the proxy that --proxy local has started in a state directory.
func stopLocal(t *testing.T, state string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(state, "local.log"))
	if os.IsNotExist(err) {
		return
	}
	m := regexp.MustCompile(`listening on .*\(process (\d+)\)`).FindSubmatch(log)
	if err != nil || m == nil {
		t.Fatalf("no process id in the log of the local proxy (%v): %s", err, log)
	}
	pid, _ := strconv.Atoi(string(m[1]))
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(clitest.Patience); syscall.Kill(pid, 0) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the local proxy does not stop")
		}
	}
}

// sameOutput compares the output of a command. Messages keep their order and data keep theirs, but
// on a slow machine a message may come later than the data that follow it.
func sameOutput(want, got string) bool {
	if sameButEllipses(want, got) {
		return true
	}
	wantMessages, wantData := splitMessages(want)
	messages, data := splitMessages(got)
	return sameButEllipses(wantMessages, messages) && sameButEllipses(wantData, data)
}

func splitMessages(text string) (messages, data string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "leasectl: ") {
			messages += line
		} else {
			data += line
		}
	}
	return messages, data
}

var timeOfDay = regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`)

// sameButEllipses compares two texts. … in want stands for anything, and white space at the ends of
// lines does not count.
func sameButEllipses(want, got string) bool {
	want, got = timeOfDay.ReplaceAllString(want, "TIME"), timeOfDay.ReplaceAllString(got, "TIME")
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", ".*")
	return regexp.MustCompile("(?s)^" + pattern + "$").MatchString(strings.TrimSpace(got))
}

// sameOutput notices a difference.
func TestSameOutput(t *testing.T) {
	for i, tt := range []struct {
		want, got string
		same      bool
	}{
		{"a … c\n", "a b c\n", true}, {"a … c\n", "a b d\n", false}, {"a.c", "abc", false},
		{"…\nlast\n", "one\ntwo\nlast\n", true}, {"", "x", false}, {"a\nb\n", "a\n", false},
		{"since 10:15:04", "since 23:59:59", true}, {"since 10:15:04", "since then", false},
		{"leasectl: a\nx\ny\n", "x\nleasectl: a\ny\n", true}, {"x\ny\n", "y\nx\n", false}, {"leasectl: a\nx\n", "x\n", false},
	} {
		if got := sameOutput(tt.want, tt.got); got != tt.same {
			t.Error(fmt.Sprint(i), tt)
		}
	}
}
