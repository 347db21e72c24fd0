package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A job is the command under a lease in the rows that count how many run at once: this program
// again. It reports its begin and end on a pipe that all jobs of a row share. Lines that short
// never mix.

// runJob touches that many bytes of memory and keeps them for d, or until TERM.
func runJob(bytes int, d time.Duration, out io.Writer) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if _, err := fmt.Fprintf(out, "+%d\n", bytes); err != nil {
		return err
	}
	memory := make([]byte, bytes)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	select {
	case <-stop:
	case <-time.After(d):
	}
	_, err := fmt.Fprintf(out, "-%d\n", len(memory))
	return err
}

// crowd counts jobs and their memory, and the most of both at once.
type crowd struct {
	jobs, most   int
	bytes, peak  int
	begun, ended int
}

// watchJobs starts commands that run jobs, each at that time after the one before, and counts
// their lines until all commands have ended. It calls end for each with its error.
func watchJobs(ctx context.Context, commands []*exec.Cmd, between time.Duration, began func(i int, p *os.Process), end func(i int, err error)) (crowd, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return crowd{}, err
	}
	var c crowd
	counted := make(chan error, 1)
	go func() { counted <- c.count(r) }()
	var running sync.WaitGroup
	for i, cmd := range commands {
		cmd.Stdout = w
		if err = cmd.Start(); err != nil {
			break
		}
		began(i, cmd.Process)
		running.Go(func() { end(i, cmd.Wait()) })
		select {
		case <-time.After(between):
		case <-ctx.Done():
		}
	}
	running.Wait()
	w.Close() // a job whose leasectl was killed may hold it a moment longer
	if failed := <-counted; err == nil {
		err = failed
	}
	return c, err
}

// count reads the lines of the jobs until no process has the pipe open for writing.
func (c *crowd) count(r *os.File) error {
	defer r.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		bytes, err := strconv.Atoi(strings.TrimLeft(lines.Text(), "+-"))
		if err != nil {
			return fmt.Errorf("a job said %q", lines.Text())
		}
		if strings.HasPrefix(lines.Text(), "-") {
			c.jobs, c.bytes, c.ended = c.jobs-1, c.bytes-bytes, c.ended+1
			continue
		}
		c.jobs, c.bytes, c.begun = c.jobs+1, c.bytes+bytes, c.begun+1
		c.most, c.peak = max(c.most, c.jobs), max(c.peak, c.bytes)
	}
	return lines.Err()
}
