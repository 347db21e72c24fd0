// Command bench measures the costs and gains of leasectl, beside the programs that one would
// use instead. Every number of its table comes from this run: the peers are measured in turns
// with leasectl, so that other load on the machine affects all of them alike. It prints
// medians, and the range of the middle eight tenths of the values. A peer that is not installed
// is named as missing.
//
//	bench -leasectl bin/leasectl [-row NAME] [-json FILE]
//	bench -picture FILE
//	bench -adapt-picture FILE
//
// It exits with 1 if a budget is missed by more than is known or a row cannot be measured. The peers that are
// programs are in peers, and must be built beside it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/trap"
)

func main() {
	// Servers that are started here are killed when the thread that started them ends. The main
	// thread ends with the program.
	runtime.LockOSThread()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

type options struct {
	leasectl string
	row      string
	json     string
	picture  string
	adapt    string // another picture
	bare     string
	hosted   string
	at       string
	job      time.Duration
	touch    int
}

func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.leasectl, "leasectl", "bin/leasectl", "the leasectl to measure")
	flags.StringVar(&o.row, "row", "", "measure this row only, or those that begin with it")
	flags.StringVar(&o.json, "json", "", "write the results to this file, too")
	flags.StringVar(&o.picture, "picture", "", "write the picture of the herd to this file, and measure nothing")
	flags.StringVar(&o.adapt, "adapt-picture", "", "write the picture of a limit that finds itself to this file, and measure nothing")
	flags.StringVar(&o.bare, "bare", "", "serve as the bare peer of this name: "+strings.Join(bareNames(), ", "))
	flags.StringVar(&o.hosted, "hosted", "", "measure many waiters of this server, leasectl or channels, in this process")
	flags.StringVar(&o.at, "at", "", "directory of a bare peer's data, or URL of its database")
	flags.DurationVar(&o.job, "job", 0, "be a job of a row, for so long")
	flags.IntVar(&o.touch, "touch", 0, "bytes of memory that the job touches")
	if err := flags.Parse(args); err != nil {
		return 64
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "bench: argument %q: want flags only\n", flags.Arg(0))
		return 64
	}
	var err error
	switch {
	case o.job > 0:
		err = runJob(o.touch, o.job, stdout)
	case o.bare != "":
		err = serveBare(o.bare, o.at, stderr)
	case o.hosted != "":
		err = runHosted(context.Background(), o.hosted, many, stdout)
	case o.picture != "":
		err = writePicture(o.picture, picture)
	case o.adapt != "":
		err = writePicture(o.adapt, adaptPicture)
	default:
		err = interruptible(func(ctx context.Context) error { return measureAll(ctx, o, stdout, stderr) })
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	return 0
}

// interruptible runs f with a context that ends at a signal, so that f stops its processes and
// removes its files.
func interruptible(f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	chain := trap.NewChain(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	chain.OnSignal(func(e trap.Event) error {
		cancel(fmt.Errorf("stopped by %v", e.Signal))
		return nil
	})
	err := f(ctx)
	return errors.Join(err, chain.Exit(0))
}

// measureAll runs the rows, prints the time that each took, and at the end the table.
func measureAll(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	chosen, err := choose(o.row)
	if err != nil {
		return err
	}
	w, err := newWorld(o.leasectl)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(w.dir)) }()

	report := newReport()
	for _, row := range chosen {
		begin := time.Now()
		fmt.Fprintf(stderr, "bench: %s …", row.name)
		results, err := row.measure(ctx, w)
		fmt.Fprintf(stderr, " %.0f s\n", time.Since(begin).Seconds())
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			results = append(results, result{Row: row.name, What: row.what, Error: err.Error()})
		}
		for i := range results {
			results[i].Row = row.name
			results[i].judge()
		}
		report.Results = append(report.Results, results...)
	}
	report.Took = time.Since(report.Began).Round(time.Second).String()
	report.print(stdout)
	if o.json != "" {
		if err := report.save(o.json); err != nil {
			return err
		}
	}
	return report.verdict()
}

// world is shared by the rows: the paths of the programs, and a directory for all files of the
// run.
type world struct {
	leasectl string
	bin      string // directory of copies of the peers that are built with this program
	peers    string // directory of the peers that are scripts
	self     string
	dir      string
	serial   int
}

func newWorld(leasectl string) (*world, error) {
	abs, err := filepath.Abs(leasectl)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(abs); err != nil {
		return nil, fmt.Errorf("the leasectl to measure: %w: build it with make build, or name another with -leasectl", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	peers, err := filepath.Abs("scripts/bench/peers")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(peers); err != nil {
		return nil, fmt.Errorf("the scripts to compare with: %w: run bench at the top of the source tree", err)
	}
	dir, err := os.MkdirTemp("", "leasectl-bench-")
	if err != nil {
		return nil, err
	}
	w := &world{leasectl: filepath.Join(dir, "bin", filepath.Base(abs)), bin: filepath.Join(dir, "bin"), peers: peers, self: self, dir: dir}
	built := filepath.Dir(self)
	programs := []string{abs, filepath.Join(built, "cobra"), filepath.Join(built, "floor"), filepath.Join(built, "launch")}
	if err := install(w.bin, programs...); err != nil {
		return nil, errors.Join(fmt.Errorf("copy the programs: %w", err), os.RemoveAll(dir))
	}
	return w, nil
}

// fresh returns a new name in the directory of the run.
func (w *world) fresh(name string) string {
	w.serial++
	return filepath.Join(w.dir, fmt.Sprintf("%s-%d", name, w.serial))
}
