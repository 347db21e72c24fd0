package trap

import (
	"os"
	"os/signal"
	"syscall"
)

var platformSignals = []os.Signal{syscall.SIGINFO}

func platformRareSignals() []os.Signal { return nil }

// Ignored tells whether this process ignores a signal.
func Ignored(sig os.Signal) bool { return signal.Ignored(sig) }
