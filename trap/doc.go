// Package trap runs handlers when signals come.
//
// What it guarantees:
//
//   - A [Chain] never overwrites: every handler that was added runs, in the
//     order of adding, exactly once per signal delivered, whatever the handlers
//     before it did.
//   - [Die] ends this process by the very signal, so that its parent sees what
//     happened.
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
//
// A program that cleans up however it ends:
//
//	chain := trap.NewChain(syscall.SIGINT, syscall.SIGTERM)
//	chain.OnSignal(func(e trap.Event) error { cancel(); return nil })
//	chain.OnExit(func(e trap.Event) error { return os.RemoveAll(dir) })
//	status := work(ctx)
//	err := chain.Exit(status)
//
// Package child runs a command, package process deals with other processes.
//
// Its files: chain.go; signals*.go, which signals there are; die_*.go.
package trap
