// Package sys has the system calls of trap and of the packages below it that
// neither syscall nor golang.org/x/sys/unix offers, and the state that these
// packages share: waitid(2), the actions and masks of signals, the end of a
// process that is no child of ours, and the processes that this one has started.
package sys
