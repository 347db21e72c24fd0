package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/leasectl/leasectl/cmd/leasectl/console"
	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/trap"
)

// app holds what every command needs: streams, signal handlers, the holder and the common
// flags. It implements the Reporter interfaces of holder and supervisor.
type app struct {
	stdin, stdout, stderr *os.File
	chain                 *trap.Chain
	ended                 context.Context // ends with the first of the endings
	holder                *holder.Holder
	messages              *console.Messenger
	staysOnHangup         atomic.Bool // SIGHUP does not end the program

	// Flags of every command.
	proxy   proxyOptions
	owner   string
	output  string
	quiet   bool
	verbose bool
}

func newApp(stdin, stdout, stderr *os.File) *app {
	return &app{
		stdin: stdin, stdout: stdout, stderr: stderr,
		chain:    trap.NewChain(),
		ended:    context.Background(),
		messages: console.New(stderr),
	}
}

// openHolder makes the holder. Call it after the flags are parsed.
func (a *app) openHolder() {
	a.holder = holder.New(holder.Options{
		StateDir:  stateDir(),
		SharedDir: os.Getenv("SHARED_DIR"),
		Within:    requestAround(),
		Owner:     a.owner,
		JobOwner:  func() string { return detectOwner(os.Getenv) },
		Proxy:     a.proxy.options(),
		Report:    a,
	})
}

// close ends a command that gets a token, and waits for queued messages to be written, for console.CloseTime at
// most. The holder's connections stay open until the process ends: closing one here would cost a switch to
// the goroutine that reads it.
func (a *app) close() {
	if a.holder != nil {
		a.holder.EndTokens()
	}
	a.messages.Close()
}

// Failf prints an error, also with --quiet.
func (a *app) Failf(format string, args ...any) { a.message(format, args...) }

// Notef prints a message about the normal course of a run, unless --quiet is given.
func (a *app) Notef(format string, args ...any) {
	if !a.quiet {
		a.message(format, args...)
	}
}

// Debugf prints a step for somebody who looks for a fault, if --verbose is given.
func (a *app) Debugf(format string, args ...any) {
	if a.verbose {
		a.message(format, args...)
	}
}

// message queues one line for stderr and does not wait for the write. The line may contain
// text of a peer, so it is made printable.
func (a *app) message(format string, args ...any) {
	a.messages.Say("leasectl: " + abridge(leaseapi.Printable(onOneLine(fmt.Sprintf(format, args...)))))
}

// onOneLine joins the lines of a text with semicolons. Several lines are several errors,
// joined by [errors.Join].
func onOneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")
}

// abridge cuts the middle out of a message that is too long to read, such as one with a path
// of 64 KiB. The beginning says what failed, and the end says why.
func abridge(text string) string {
	const most, head, tail = 4096, 1024, 512
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:head], "") + " … " + strings.ToValidUTF8(text[len(text)-tail:], "")
}

// Flush waits for queued messages to be written, for flushTime at most.
func (a *app) Flush() { a.messages.Flush() }

// Waiting reports on a wait until stop is called. With --quiet it prints nothing.
func (a *app) Waiting(w *holder.Wait) (stop func()) {
	if a.quiet {
		return func() {}
	}
	return showWait(w, a.messages)
}

const noProxy = "no proxy is set (--proxy or $" + proxyVariable + ")"

// dryRun says that no proxy is set, and what the command does instead. With --required that is wrong usage.
func (a *app) dryRun(format string, args ...any) error {
	if a.proxy.required {
		return usagef(noProxy + ", and --required demands one")
	}
	a.Notef(noProxy+": dry run: %s", fmt.Sprintf(format, args...))
	return nil
}

// print writes data for scripts to stdout. A failed write must fail the command, or the
// caller's shell would go on without the data. print waits for the signal handlers: before
// they are installed, a write to a broken pipe would end the program by SIGPIPE. Once one of the
// endings has come, print waits for console.CloseTime at most, since stdout may be a full pipe that nobody reads.
func (a *app) print(format string, args ...any) error {
	text, written := fmt.Sprintf(format, args...), make(chan error, 1)
	go func() {
		_, err := a.stdout.WriteString(text)
		written <- err
	}()
	var err error
	select {
	case err = <-written:
	case <-a.ended.Done():
		select {
		case err = <-written:
		case <-time.After(console.CloseTime):
			err = context.Cause(a.ended)
		}
	}
	if err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

// helpOutput is the writer for cobra's help. Cobra ignores write errors, so helpOutput keeps
// the first one.
type helpOutput struct {
	*app
	failed error // first failed write
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

// printLines prints each string on its own line, all in one write.
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
	return a.print("%s\n", plainJSON(text))
}

// plainJSON returns JSON in which what a file or a peer has put there stands as [leaseapi.Printable] wants it: as
// escapes, since these are data.
func plainJSON(text []byte) string {
	var plain strings.Builder
	for i, r := range string(text) {
		switch {
		case r == '#' && i > 0 && text[i-1] == '#':
			plain.WriteString(`\u0023`)
		case r == '\n' || unicode.IsPrint(r):
			plain.WriteRune(r)
		default:
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&plain, `\u%04x`, u)
			}
		}
	}
	return plain.String()
}

// emptyNotNull replaces nil with an empty list, so that JSON has [] and not null.
func emptyNotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// stateDir is the directory of handles, journal and local proxy. All jobs of a user on a
// machine share one directory, since with two they would not see each other.
func stateDir() string {
	if dir := os.Getenv("LEASECTL_STATE_DIR"); dir != "" {
		if abs, err := filepath.Abs(dir); err == nil {
			return abs
		}
		return dir
	}
	return fmt.Sprintf("/tmp/leasectl-%d", os.Getuid())
}
