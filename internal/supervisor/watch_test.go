package supervisor

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/child"
	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/proxyclient"
)

// A command that ended by itself was not stopped for its lost lease, even if leasectl sees both
// at once, as it does when it goes on after a suspension.
func TestEndBeforeLoss(t *testing.T) {
	kept, lose := context.WithCancelCause(t.Context())
	lose(&holder.Loss{Err: errors.New("lost"), Deadline: proxyclient.Now()})
	for range 20 {
		command, err := child.Start(child.Command{Args: []string{"sh", "-c", "exit 7"}, Stderr: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		command.Wait()
		w := watch{
			Options: Options{Report: silent{}, GracePeriod: time.Second},
			command: command, kept: kept,
		}
		if end := w.untilEnd(); end.Lost || end.Status.Code != 7 {
			t.Fatalf("the run ended as %+v, want the command's exit code 7", end)
		}
	}
}

// A command that ended by itself was not stopped by a signal that comes at the same time: the
// run ends with the command's own exit code.
func TestEndBeforeSignal(t *testing.T) {
	for range 20 {
		command, err := child.Start(child.Command{Args: []string{"sh", "-c", "exit 7"}, Stderr: os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		command.Wait()
		signals := make(chan syscall.Signal, 1)
		signals <- syscall.SIGTERM
		w := watch{
			Options: Options{Report: silent{}, GracePeriod: time.Second},
			command: command, kept: t.Context(), signals: signals,
		}
		if end := w.untilEnd(); !end.byItself() || end.Status.Code != 7 {
			t.Fatalf("the run ended as %+v, want the command's exit code 7", end)
		}
	}
}

// heard is a Reporter that notes when something failed.
type heard struct {
	silent
	said chan struct{}
}

func (r heard) Failf(string, ...any) { r.said <- struct{}{} }

// startStubborn starts a command that ignores TERM, and returns when it does.
func startStubborn(t *testing.T) *child.Process {
	t.Helper()
	ready, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command, err := child.Start(child.Command{Args: []string{"sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"}, Stdout: stdout})
	if err != nil {
		t.Fatal(err)
	}
	ready.Read(make([]byte, 1))
	return command
}

// A command that is being stopped for its lost lease ends in time even if a signal leaves it
// less time: otherwise an outer exec would kill leasectl, and the command would outlive both.
func TestSignalAfterLoss(t *testing.T) {
	kept, lose := context.WithCancelCause(t.Context())
	lose(&holder.Loss{Err: errors.New("lost")})
	command := startStubborn(t)
	signals, said := make(chan syscall.Signal), make(chan struct{}, 2)
	w := watch{
		Options: Options{Report: heard{said: said}, GracePeriod: time.Hour},
		command: command, kept: kept, signals: signals, lossGrace: time.Hour, signalGrace: time.Millisecond,
	}
	go func() {
		<-said // that the lease is lost
		signals <- syscall.SIGTERM
	}()
	if end := w.untilEnd(); !end.Lost || end.Status.Signal != syscall.SIGKILL {
		t.Fatalf("the run ended as %+v, want a lost lease and KILL", end)
	}
}

// The grace period of a nested exec ends before that of the outer one, with time for a release.
func TestGraceAfterSignal(t *testing.T) {
	for _, tt := range []struct {
		outer     string
		own, want time.Duration
	}{
		{"", 10 * time.Second, 10 * time.Second},
		{"10s", 10 * time.Second, 6 * time.Second},
		{"10s", 5 * time.Second, 5 * time.Second},
		{"6s", 10 * time.Second, 3 * time.Second},
		{"2s", 10 * time.Second, time.Second},
		{"0s", 10 * time.Second, 0},
		{"1h0m0s", 10 * time.Second, 10 * time.Second},
		{"-5s", 10 * time.Second, 10 * time.Second},
		{"soon", 10 * time.Second, 10 * time.Second},
	} {
		s := &supervisor{Options: Options{GracePeriod: tt.own, Environment: []string{graceVariable + "=" + tt.outer}}}
		if got := s.graceAfterSignal(); got != tt.want {
			t.Errorf("below a grace period of %q one of %v is %v, want %v", tt.outer, tt.own, got, tt.want)
		}
	}
}

// A command whose lease ends before the grace period would, as after a suspension, has only until then.
func TestLossShortlyBeforeTheEnd(t *testing.T) {
	command := startStubborn(t)
	deadline := proxyclient.Now().Add(StopMargin)
	kept, lose := context.WithCancelCause(t.Context())
	lose(&holder.Loss{Err: errors.New("lost"), Deadline: deadline})
	w := watch{Options: Options{Report: silent{}, GracePeriod: time.Hour}, command: command, kept: kept, lossGrace: time.Hour}
	if end := w.untilEnd(); !end.Lost || end.Status.Signal != syscall.SIGKILL {
		t.Errorf("the run ended as %+v", end)
	}
}

// What is left of a grace period ends a moment before the lease does.
func TestLossGrace(t *testing.T) {
	for _, tt := range []struct{ left, least, most time.Duration }{
		{time.Hour, 10 * time.Second, 10 * time.Second},
		{8 * time.Second, 5 * time.Second, 7 * time.Second},
		{time.Second / 2, 0, 0},
		{-time.Hour, 0, 0},
	} {
		l := holder.Loss{Deadline: proxyclient.Now().Add(tt.left)}
		if got := l.Grace(10*time.Second, time.Second); got < tt.least || got > tt.most {
			t.Errorf("%v before the end %v are left", tt.left, got)
		}
	}
	if got := (&holder.Loss{}).Grace(10*time.Second, time.Second); got != 10*time.Second {
		t.Errorf("%v are left when the deadline is not known", got)
	}
}
