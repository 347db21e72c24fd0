package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/trap"
)

// app is what every command needs of the world around it. It is the Reporter of
// holder and supervisor.
type app struct {
	stdin, stdout, stderr *os.File
	chain                 *trap.Chain
	listening             chan struct{} // closed when the chain hears the endings
	holder                *holder.Holder
	messages              *messenger
	staysOnHangup         atomic.Bool // SIGHUP means something else than to end

	// Flags of every command.
	proxy   proxyOptions
	owner   string
	output  string
	quiet   bool
	verbose bool
}

func newApp(stdin, stdout, stderr *os.File) *app {
	listening := make(chan struct{})
	return &app{
		stdin: stdin, stdout: stdout, stderr: stderr,
		chain:     trap.NewChain(),
		listening: listening,
		messages:  newMessenger(stderr, listening),
	}
}

// openHolder makes the holder, once the flags are known.
func (a *app) openHolder() {
	a.holder = holder.New(holder.Options{
		StateDir:  stateDir(),
		Owner:     a.owner,
		JobOwner:  func() string { return detectOwner(os.Getenv) },
		Proxy:     a.proxy.options(),
		Report:    a,
		Listening: a.listening,
	})
}

// close waits until what was said is written, but not for long. The connections of the
// holder are left to the end of the process: closing one would cost a switch to the
// goroutine that reads it.
func (a *app) close() { a.messages.close() }

// Failf prints an error. It is never silenced.
func (a *app) Failf(format string, args ...any) { a.message(format, args...) }

// Notef prints what a user wants to know of a run that goes well.
func (a *app) Notef(format string, args ...any) {
	if !a.quiet {
		a.message(format, args...)
	}
}

// Debugf prints what only somebody who looks for a fault wants to know.
func (a *app) Debugf(format string, args ...any) {
	if a.verbose {
		a.message(format, args...)
	}
}

// message says one line on stderr, without waiting for it to be written. It may
// contain text of a peer, so it is made printable.
func (a *app) message(format string, args ...any) {
	a.messages.say("leasectl: " + abridge(leaseapi.Printable(onOneLine(fmt.Sprintf(format, args...)))))
}

// onOneLine tells the lines of a text apart by semicolons: each is an error, if several
// were joined.
func onOneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")
}

// abridge leaves out the middle of a message that is too long to be read, such as of a
// path of 64 KiB: it begins with what failed, and ends with why.
func abridge(text string) string {
	const most, head, tail = 4096, 1024, 512
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:head], "") + " … " + strings.ToValidUTF8(text[len(text)-tail:], "")
}

// Flush waits for a moment until what was said is written.
func (a *app) Flush() { a.messages.flush() }

// Waiting tells of a wait until stop is called.
func (a *app) Waiting(w *holder.Wait) (stop func()) {
	if a.quiet {
		return func() {}
	}
	return showWait(w, a.messages)
}

// dryRun says that no proxy is set, and what follows.
func (a *app) dryRun(format string, args ...any) {
	a.Notef("no proxy is set (--proxy or $%s): %s", proxyVariable, fmt.Sprintf(format, args...))
}

// What goes to stdout is data for scripts. A failed write is an error of the
// command, or the caller's shell would go on without the data. Before the chain
// listens, such a write would end the program by SIGPIPE.

func (a *app) print(format string, args ...any) error {
	<-a.listening
	if _, err := fmt.Fprintf(a.stdout, format, args...); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

// helpOutput is where cobra writes its help, without a look whether that fails.
type helpOutput struct {
	*app
	failed error // of the first write that did
}

func (o *helpOutput) Write(text []byte) (int, error) {
	if o.failed == nil {
		o.failed = o.print("%s", text)
	}
	if o.failed != nil {
		return 0, o.failed
	}
	return len(text), nil
}

// printLines prints one line each, in one write.
func (a *app) printLines(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return a.print("%s\n", strings.Join(lines, "\n"))
}

func (a *app) printJSON(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return a.print("%s\n", text)
}

// emptyNotNull makes nil an empty list, for JSON.
func emptyNotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// stateDir is where handles and the local proxy live: one place for all jobs
// of a user on a machine, or two of them would not see each other.
func stateDir() string {
	if dir := os.Getenv("LEASECTL_STATE_DIR"); dir != "" {
		if abs, err := filepath.Abs(dir); err == nil {
			return abs
		}
		return dir
	}
	return fmt.Sprintf("/tmp/leasectl-%d", os.Getuid())
}
