package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/leasectl/leasectl/internal/testenv"
)

// WatchExit reports the end of a process once, at once if the process is gone, and it reports
// the end of its context.
func TestWatchExit(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	ended := WatchExit(t.Context(), cmd.Process.Pid)
	select {
	case err := <-ended:
		t.Fatalf("the process lives, and WatchExit says %v", err)
	default:
	}
	cmd.Process.Kill()
	cmd.Wait() // from here on the id may be another's
	if err := testenv.Receive(t, ended); err != nil {
		t.Error(err)
	}
	if err := testenv.Receive(t, WatchExit(t.Context(), cmd.Process.Pid)); err != nil {
		t.Errorf("a process that is gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended = WatchExit(ctx, os.Getpid())
	cancel()
	if err := testenv.Receive(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context has ended: %v", err)
	}
	if err := testenv.Receive(t, WatchExit(t.Context(), 0)); err == nil {
		t.Error("no error for process 0")
	}
}
