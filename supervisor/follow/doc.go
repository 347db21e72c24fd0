// Package follow reads what is written to a log, line by line, while it is written.
//
//   - The log need not be there yet, nor its directory. What can be read of it when
//     a [Log] is made is not looked at: it is of an earlier run.
//   - A log that begins anew, because it was truncated or replaced, is read from its
//     beginning; of one that was replaced, the rest is read first. One that was
//     truncated and is longer again before anybody looked cannot be told from one
//     that has grown.
//   - Of a line, the first [MaxLine] bytes are looked at. What they are does not
//     matter.
//   - While nothing is written, nothing is done: on Linux, inotify(7) says when
//     there is something. Elsewhere, where inotify refuses to watch something, and on
//     file systems that others write to, such as NFS, the log is looked at twice a
//     second.
//
// Its files, from the public down: follow.go, lines.go, wake_linux.go and
// wake_other.go, poll.go.
package follow
