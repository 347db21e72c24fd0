// Package trap runs handlers when signals come.
//
// It guarantees:
//
//   - A [Chain] never overwrites: every handler that was added runs, in the order of adding,
//     exactly once per signal delivered, whatever the handlers before it did.
//   - [Die] ends this process by the signal itself, so that its parent sees what happened.
//
// Its limits:
//
//   - A signal that was ignored when the process started stays ignored, for the process and its
//     children, only if the process can find that out. The Go runtime keeps SIGHUP and SIGINT
//     ignored, and leaves SIGTSTP, SIGTTIN and SIGTTOU alone. For every other signal it
//     installs a handler before any code of the program runs, and children start with the
//     default action.
//   - The kernel merges a signal with the same signal that is still pending, and so does a
//     Chain. Two TERM in quick succession may arrive as one.
//
// Package child runs a command, package process deals with other processes.
//
// Within a major version of the module, what this package exports stays, and goes on to mean the
// same. The packages below it promise nothing.
package trap
