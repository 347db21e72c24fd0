package trap_test

import (
	"fmt"
	"syscall"

	"github.com/leasectl/leasectl/trap"
)

// A program stops its work at a signal, and cleans up however it ends.
func Example() {
	stop := make(chan struct{})
	chain := trap.NewChain(syscall.SIGUSR1)
	chain.OnSignal(func(e trap.Event) error {
		fmt.Println("stops at", e.Signal)
		close(stop)
		return nil
	})
	chain.OnExit(func(e trap.Event) error {
		fmt.Println("cleans up, and ends with", e.Status)
		return nil
	})

	syscall.Kill(syscall.Getpid(), syscall.SIGUSR1)
	<-stop // the work
	if err := chain.Exit(3); err != nil {
		fmt.Println(err)
	}
	// Output:
	// stops at user defined signal 1
	// cleans up, and ends with 3
}
