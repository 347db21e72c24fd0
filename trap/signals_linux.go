package trap

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/leasectl/leasectl/internal/sys"
)

var platformSignals []os.Signal // none

func platformRareSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGPWR}
	for sig := syscall.Signal(35); sig <= 64; sig++ {
		signals = append(signals, sig)
	}
	return signals
}

// Ignored tells whether this process ignores a signal. Unlike [signal.Ignored] it asks the
// kernel, and so knows signals that were inherited as ignored, too.
func Ignored(sig os.Signal) bool {
	if n, ok := sig.(syscall.Signal); ok {
		if action, err := sys.SetAction(n, nil); err == nil {
			return action.Ignore()
		}
	}
	return signal.Ignored(sig)
}
