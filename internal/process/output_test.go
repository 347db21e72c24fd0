package process

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

func TestOutput(t *testing.T) {
	run := func(ctx context.Context, script string) (string, error) {
		text, err := Output(ctx, []string{"/bin/sh", "-c", script}, []string{"A=b", "PATH=" + os.Getenv("PATH")}, 100)
		return string(text), err
	}
	if text, err := run(t.Context(), `echo "$A"; cat`); text != "b\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	for script, want := range map[string]string{
		"echo x; exit 3":                       "exit status 3",
		"kill -9 $$":                           "signal: killed",
		"head -c 101 /dev/zero; exec sleep 60": "it wrote more than 100 bytes",
	} {
		if text, err := run(t.Context(), script); err == nil || err.Error() != want || text != "" {
			t.Errorf("%s: %q, %v", script, text, err)
		}
	}
	if _, err := Output(t.Context(), []string{"/nothing"}, nil, 1); err == nil {
		t.Error("a program that is not there ran")
	}
}

// A program that does not end is killed with all that it started, also if only what it started
// still has the pipe.
func TestOutputThatDoesNotEnd(t *testing.T) {
	for _, script := range []string{"sleep 60", "sleep 60 & sleep 60", "sleep 60 & exit 0", "exec >&-; sleep 60"} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		begun := time.Now()
		if _, err := Output(ctx, []string{"/bin/sh", "-c", script}, []string{"PATH=" + os.Getenv("PATH")}, 100); err == nil || !strings.Contains(err.Error(), "deadline") {
			t.Errorf("%s: %v", script, err)
		}
		cancel()
		if took := time.Since(begun); took > 30*time.Second {
			t.Errorf("%s took %v", script, took)
		}
	}
}
