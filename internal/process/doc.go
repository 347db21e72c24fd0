// Package process deals with processes that this one does not supervise: it starts one in the
// background, and waits for the end of any process.
//
// It guarantees:
//
//   - [StartDetached] returns when the background process has called [Ready], not before, and
//     after an error no such process is left.
//   - A background process has no descriptor, terminal or session of its starter.
//   - [WaitExit] costs no CPU, and never waits for a later process with the same id.
//
// Its limits: outside Linux, and where a sandbox forbids pidfds, WaitExit looks once a second,
// and may mistake a later process with the same id for the one it waits for.
//
// A program that starts itself in the background:
//
//	pid, err := process.StartDetached(ctx, []string{self, "serve"}, os.Environ(), log)
//
// and the background process:
//
//	listener, err := net.Listen("unix", path)
//	process.Ready(err)
package process
