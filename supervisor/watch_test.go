package supervisor

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/trap/child"
)

// A command that ended by itself was not stopped for the lease that is lost by then:
// both are seen at once when leasectl goes on after a stop.
func TestEndBeforeLoss(t *testing.T) {
	kept, lose := context.WithCancelCause(t.Context())
	lose(&holder.Loss{Err: errors.New("lost"), Over: true})
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
