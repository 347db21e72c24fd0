// Package follow reads a log, line by line, while it is written.
//
//   - The log and its directory need not exist yet. Content that can be read when a [Log] is
//     made is skipped: it is of an earlier run.
//   - A log that was truncated or replaced is read from its beginning. The rest of a replaced
//     log is read first, up to the look that finds data in the next one. A log that is away for
//     a while goes on where it was. A log that was truncated and is longer again before the next
//     look cannot be told from one that has grown.
//   - Only the first [MaxLine] bytes of a line are looked at. They need not be text.
//   - While nothing is written, nothing is done: on Linux, inotify(7) says when the log
//     changes. Elsewhere, where inotify refuses to watch something, and on file systems that
//     others write to, such as NFS, the log is looked at twice a second.
package follow
