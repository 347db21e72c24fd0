package demo

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/internal/process"
	"github.com/leasectl/leasectl/proxyclient"
)

// Work is the command of a job. It ends when its time is over and input is at its end, or when
// its leasectl exec is gone, and returns its exit code: 4 if a file failOnce was to be made, and was not there yet.
func Work(ctx context.Context, input io.Reader, takes time.Duration, failOnce string) (code int) {
	ctx, gone := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer gone()
	watch.Go(func() {
		process.WaitParent(ctx)
		gone()
	})
	fails := false
	if failOnce != "" {
		f, err := os.OpenFile(failOnce, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if fails = err == nil; fails {
			f.Close()
		}
	}
	ended := make(chan struct{})
	go func() { // outlived by nobody: the program ends
		io.Copy(io.Discard, input)
		close(ended)
	}()
	err := proxyclient.Sleep(ctx, takes)
	if err == nil {
		select {
		case <-ended:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	switch {
	case err != nil:
		return 128 + int(syscall.SIGTERM)
	case fails:
		return 4
	}
	return 0
}

// MayBe reports whether dir may be the directory of a demo.
func MayBe(dir string) bool {
	return filepath.IsAbs(dir) && strings.HasPrefix(filepath.Base(dir), Prefix)
}

// Sweep removes the directory of a demo when the demo has ended, however it ended: alive is the
// end of a pipe whose other end only the demo has. It ignores signals, since a KILL of the demo may
// come with a TERM for everybody.
func Sweep(alive *os.File, dir string) error {
	for {
		if _, err := alive.Read(make([]byte, 1)); err != nil {
			break
		}
	}
	err := os.RemoveAll(dir)
	for range sweepTries { // a job that is being killed may have made a file meanwhile
		if _, gone := os.Lstat(dir); gone != nil {
			return nil
		}
		time.Sleep(sweepPause)
		err = os.RemoveAll(dir)
	}
	return err
}
