package main

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/internal/child"
	"github.com/leasectl/leasectl/proxyclient"
)

// Each error has its promised exit code, however deeply it is wrapped, and in exec as in other
// commands.
func TestExitStatus(t *testing.T) {
	for _, tt := range []struct {
		err       error
		want      int
		inExec    int
		described string
	}{
		{nil, 0, 125, "success"},
		{errors.New("anything"), 1, 125, "a failure"},
		{proxyclient.ErrUnknownType, 2, 125, "an unknown type"},
		{usagef("--x"), 64, 64, "wrong usage"},
		{proxyclient.ErrUnreachable, 69, 69, "no answer"},
		{&proxyclient.ExhaustedError{Type: "t"}, 75, 75, "no lease in time"},
		{&proxyclient.UnconfirmedError{Err: &proxyclient.ExhaustedError{}}, 75, 75, "no lease in time, unconfirmed"},
		{statusError{code: exitLost}, 76, 76, "a lost lease"},
		{child.ErrNotExecutable, 126, 126, "not executable"},
		{child.ErrNotFound, 127, 127, "not found"},
		{signalError{syscall.SIGTERM}, 143, 143, "TERM"},
		{signalError{syscall.SIGINT}, 130, 130, "INT"},
		{statusError{code: 4}, 4, 4, "a child's code"},
	} {
		t.Run(tt.described, func(t *testing.T) {
			if got := exitStatus(tt.err); got != tt.want {
				t.Errorf("exit status %d, want %d", got, tt.want)
			}
			if tt.err == nil {
				return
			}
			if got := exitStatus(fmt.Errorf("acquire: %w", tt.err)); got != tt.want {
				t.Errorf("wrapped: exit status %d, want %d", got, tt.want)
			}
			if got := exitStatus(execError{tt.err}); got != tt.inExec {
				t.Errorf("in exec: exit status %d, want %d", got, tt.inExec)
			}
		})
	}
}
