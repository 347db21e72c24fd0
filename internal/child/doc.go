// Package child supervises a command: its process group, its terminal and its exit status.
//
// It guarantees:
//
//   - A [Process] has its own process group and the very descriptors it was given. Its end is
//     reported exactly, all 256 exit codes and every signal, and no signal of ours ever reaches
//     a process that got its pid later.
//   - [Process.Stop] ends every process of the group, also those that ignore the signal or
//     outlive their leader, before [Process.Done] is closed.
//   - On a terminal a child behaves as if its starter were not there: ^C, ^Z, fg and bg work as
//     usual.
//
// Its limits:
//
//   - A process that has left the group (setsid, a shell's own job control) is not stopped with
//     it, nor is one that belongs to another user.
//   - Outside Linux there is no parent-death signal, and a stopped job is shown as stopped by
//     SIGSTOP.
//
// A program that runs a command, forwards the signals that it gets, and ends as the command
// ended:
//
//	chain := trap.NewChain(trap.Signals()...)
//	command, err := child.Start(child.Command{Args: os.Args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
//	if err != nil {
//		return err
//	}
//	chain.OnSignal(func(e trap.Event) error { command.Signal(e.Signal); return nil })
//	status := command.Wait()
//	err = chain.Exit(status.ExitCode())
package child
