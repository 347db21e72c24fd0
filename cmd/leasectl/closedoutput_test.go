package main

import (
	"os"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// If nobody reads its output, leasectl does its work all the same. It ends as otherwise, and not
// by SIGPIPE.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	ran := w.Path("ran")
	for _, tt := range []struct {
		stdout bool // stdout is closed, else stderr
		args   []string
		want   int
	}{
		{args: []string{"exec", "--type", "x", "--", "touch", ran}},
		{args: []string{"exec"}, want: exitUsage},
		{args: []string{"acquire", "--type", "x"}},
		{stdout: true, args: []string{"acquire", "--type", "x"}, want: exitFailure},
		{stdout: true, args: []string{"version"}, want: exitFailure},
		{stdout: true, args: []string{"help"}, want: exitFailure},
		{stdout: true, args: []string{"exec", "--help"}, want: exitFailure},
		{stdout: true, args: []string{"help", "exit-codes"}, want: exitFailure},
		{stdout: true, args: []string{"completion", "bash"}, want: exitFailure},
	} {
		for range 20 {
			r, closed := clitest.NewPipe(t)
			r.Close()
			cmd := w.Command(tt.args...)
			cmd.Env = append(cmd.Env, proxyVariable+"=") // a dry run
			if tt.stdout {
				cmd.Stdout = closed
			} else {
				cmd.Stderr = closed
			}
			err := cmd.Run()
			closed.Close()
			if clitest.ExitCode(err) != tt.want {
				t.Fatalf("%v: %v, want exit code %d", tt.args, err, tt.want)
			}
		}
	}
	if _, err := os.Stat(ran); err != nil {
		t.Errorf("the command did not run: %v", err)
	}
}
