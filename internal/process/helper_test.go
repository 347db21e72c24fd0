package process

import (
	"testing"

	"github.com/leasectl/leasectl/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, map[string]func(args []string) int{
		"daemon":  daemonMode,
		"starter": starterMode,
	})
}

// awaitReaped waits until the background processes that have ended are reaped.
func awaitReaped(t *testing.T) {
	t.Helper()
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		detached.Wait()
	}()
	testenv.Receive(t, reaped)
}
