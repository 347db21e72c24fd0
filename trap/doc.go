// Package trap runs handlers when signals come, and supervises child processes
// as a group.
//
// What it guarantees:
//
//   - A [Chain] never overwrites: every handler that was added runs, in the
//     order of adding, exactly once per signal delivered, whatever the handlers
//     before it did.
//   - A [Child] has its own process group and the very descriptors it was given.
//     Its end is reported exactly, all 256 exit codes and every signal, and no
//     signal of ours ever reaches a process that got its pid later.
//   - After [Child.Stop] no process of the group is alive, also those that
//     ignore the signal or outlive their leader.
//   - On a terminal a child behaves as if its starter were not there: ^C, ^Z, fg
//     and bg do what they do without it.
//   - [WaitExit] costs no CPU, and [StartDetached] returns when the background
//     process says that it is ready, not before.
//
// What it cannot do:
//
//   - A signal that the process was started with as ignored stays ignored, for
//     it and for its children, only if that can be known. The Go runtime keeps
//     it for SIGHUP and SIGINT, and leaves SIGTSTP, SIGTTIN and SIGTTOU alone;
//     for every other signal it installs a handler before any code of the
//     program runs. Their children start with the default action.
//   - The kernel merges a signal with the same signal that is still pending, and
//     so does a Chain. Two TERM in quick succession may be one.
//   - A process that has left the group (setsid, a shell's own job control) is
//     not stopped with it, nor is one that belongs to another user.
//   - Outside Linux there is no parent-death signal, WaitExit looks once a
//     second, and a stopped job is shown as stopped by SIGSTOP.
//
// A program that runs a command, forwards what it gets, and ends as the command
// ended:
//
//	chain := trap.NewChain(trap.Signals()...)
//	child, err := trap.Start(trap.Command{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
//	if err != nil {
//		return err
//	}
//	chain.OnSignal(func(e trap.Event) error { return child.Signal(e.Signal) })
//	status := child.Wait()
//	err = chain.Exit(status.ExitCode())
package trap
