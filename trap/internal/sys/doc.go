// Package sys is what trap and the packages below it ask of the kernel and what
// neither syscall nor golang.org/x/sys/unix offers: waitid(2), what a signal does
// and whether a thread lets it in (Linux), the end of a process that is no child
// of ours, and which processes this one has started.
package sys
