// Command runtests runs go test and prints what it prints: a line for each package, and the
// output of tests that fail. Its last lines say how many tests were skipped, and why: a test
// that was skipped has shown nothing. Before it runs all tests of leasectl it says what they build
// and how long they take.
//
//	go run ./scripts/runtests [FLAG OF GO TEST…] PACKAGE…
//
// Its exit code is that of go test.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			os.Exit(max(exit.ExitCode(), 1))
		}
		fmt.Fprintln(os.Stderr, "runtests:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	if slices.Contains(args, "./...") {
		announce(stdout, slices.Contains(args, "-race"))
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := report{out: stdout, output: make(map[test][]string), skipped: make(map[string]int)}
	readErr := r.read(events)
	err = cmd.Wait()
	r.printSkips()
	return errors.Join(err, readErr)
}

// announce says how long all tests of leasectl take, and what they build beside themselves: see
// package etcdtest.
func announce(out io.Writer, race bool) {
	usual := "five minutes"
	if race {
		usual = "ten minutes"
	}
	fmt.Fprintf(out, "all tests usually take %s on two cores, and a few more where nothing is compiled yet\n", usual)
	if _, err := exec.LookPath("etcd"); err != nil && os.Getenv("TEST_ETCD") == "" {
		fmt.Fprintln(out, "PATH has no etcd: tests build one from its Go module, which takes a minute or two, unless an earlier run has")
	}
}

// event is a line of go test -json: see go doc test2json, and go help buildjson for the output of
// a package that does not build.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

// test names a test, or with an empty name the package itself.
type test struct{ pkg, name string }

// report follows the events of one run of go test.
type report struct {
	out     io.Writer
	output  map[test][]string // of the tests that still run
	skipped map[string]int    // by reason
}

// read follows events until they end. It reads to the end even if a line is no event.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil {
				r.follow(e)
			} else {
				io.WriteString(r.out, line)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) follow(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		io.WriteString(r.out, e.Output)
	case "output":
		r.output[t] = append(r.output[t], e.Output)
	case "pass":
		if e.Test == "" {
			r.printPackage(t)
		}
		delete(r.output, t)
	case "skip":
		if e.Test == "" { // a package without tests
			r.printPackage(t)
		} else {
			r.skipped[reason(r.output[t])]++
		}
		delete(r.output, t)
	case "fail":
		if e.Test == "" {
			r.printUnfinished(e.Package)
			r.printPackage(t)
		} else {
			io.WriteString(r.out, strings.Join(r.output[t], ""))
		}
		delete(r.output, t)
	}
}

// printPackage prints the package's own output, without the PASS that its line repeats.
func (r *report) printPackage(t test) {
	for _, line := range r.output[t] {
		if line != "PASS\n" {
			io.WriteString(r.out, line)
		}
	}
}

// printUnfinished prints the output of tests that had no end, since their process died.
func (r *report) printUnfinished(pkg string) {
	for _, t := range slices.SortedFunc(maps.Keys(r.output), func(a, b test) int { return strings.Compare(a.name, b.name) }) {
		if t.pkg == pkg && t.name != "" {
			io.WriteString(r.out, strings.Join(r.output[t], ""))
			delete(r.output, t)
		}
	}
}

var logged = regexp.MustCompile(`^\s*\S+\.go:\d+: (.*)`)

// reason returns what a skipped test logged last.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if m := logged.FindStringSubmatch(line); m != nil && m[1] != "" {
			return m[1]
		}
	}
	return "no reason given"
}

func (r *report) printSkips() {
	total := 0
	for _, n := range r.skipped {
		total += n
	}
	if total == 0 {
		fmt.Fprintln(r.out, "no test was skipped")
		return
	}
	reasons := slices.SortedFunc(maps.Keys(r.skipped), func(a, b string) int {
		if r.skipped[a] != r.skipped[b] {
			return r.skipped[b] - r.skipped[a]
		}
		return strings.Compare(a, b)
	})
	fmt.Fprintf(r.out, "%d tests were skipped:\n", total)
	for _, why := range reasons {
		fmt.Fprintf(r.out, "%6d  %s\n", r.skipped[why], why)
	}
}
