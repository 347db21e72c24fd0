package child_test

import (
	"fmt"
	"os"

	"github.com/leasectl/leasectl/internal/child"
	"github.com/leasectl/leasectl/trap"
)

// A program that runs a command, forwards its signals, cleans up, and ends as the command
// ended.
func Example() {
	chain := trap.NewChain(trap.Signals()...)
	chain.OnExit(func(e trap.Event) error {
		fmt.Println("clean up after status", e.Status)
		return nil
	})
	command, err := child.Start(child.Command{
		Args:   []string{"sh", "-c", "echo work; exit 4"},
		Env:    os.Environ(),
		Stdout: os.Stdout,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain.OnSignal(func(e trap.Event) error {
		command.Signal(e.Signal) // an error means that the command has ended
		return nil
	})
	status := command.Wait()
	if err := chain.Exit(status.ExitCode()); err != nil {
		fmt.Println(err)
	}
	fmt.Println("exit status", status.ExitCode())
	// Output:
	// work
	// clean up after status 4
	// exit status 4
}
