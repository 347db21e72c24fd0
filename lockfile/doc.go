// Package lockfile keeps handles: the files that say which leases an acquire got, and the
// flock(2) under which they are read, decided on and written.
//
// It guarantees:
//
//   - Of all processes of a machine that call [WithLock] or [Handle.Update] on one path, one at
//     a time is inside. The lock of a process that dies is free at once.
//   - [Handle.Read], which takes no lock, returns the record as it was before a change or as it
//     is after it, never a mixture. That also holds for the files that a SIGKILL between any
//     two instructions of a change leaves behind.
//   - A name in a handle is never dropped silently: if the record beside it is missing, broken
//     or about other names, the names still count.
//   - Only regular files of the calling user are read, written or locked. A symlink, a file or
//     directory of another user, a pipe or a device is refused with an error that says so.
//
// # The files
//
// A handle HANDLE is up to three files of mode 0600. HANDLE holds one lease name a line, for
// cat, mapfile and cp, and stays until these names are given back: a failed release leaves it.
// HANDLE.json holds the [Record]. HANDLE.lock is the file that flock(2) is called on; its
// content does not matter. A copy of HANDLE alone, or with an empty HANDLE.lock, is a handle
// too, a bare one. During a change the next record stands in HANDLE.lock.json, until it
// replaces HANDLE.json. If its writer was killed, it stays until the next change.
//
// A [Shared] lease has other files, which its record names.
//
// # Formats
//
// HANDLE.json, each entry of a [Journal], each line of a [Cell], the record of a [Shared] lease and
// the file beside a [List] say in "format" in which form they are written: 1, the only one so far.
// (The field is not called version, since leasectl and the wire have versions of their own.) A
// program skips fields that it does not know, and loses them with the next change of the record. So
// a new field needs a new number only if a program that loses it could lose a lease or end a
// lease of another holder.
//
// A file without a number is broken. One with a greater number is refused with [ErrNewer], and is
// never written or removed:
// [Handle.Update] does not call its function, [Journal.SettleDead] passes the entry to nobody,
// [Journal.Begin] does not overwrite it. Only [Handle.Read] returns the names beside the error. So
// every format must keep this: HANDLE holds a name a line, and the other files are JSON objects
// with an integer "format", a [Cell] one such object a line.
//
// # Durability
//
// Files are replaced by rename, so nobody reads half of one, and a full disk is an error that
// changes nothing. Files are not synced: a rename outlives the process, and leases whose files
// a power cut destroys end with their TTL.
//
// # Caveats
//
//   - The lock is advisory, and as good as the file system's flock(2). A section that locks the
//     path it already holds waits for itself until its context ends. The lock orders what
//     processes do to files, not what goroutines do to memory.
//   - Each part of the path of a handle's directory must belong to the caller or to root. The directory
//     may be writable for everybody, with or without the sticky bit: volumes of container platforms
//     commonly are root's with mode 0777. Other users who can write there without a sticky bit can
//     delete or rename a handle's files; files that they create themselves are refused. [MakeDir] is
//     strict: it accepts only a directory that nobody else can write to. Root may also use the directory
//     of another user, if nobody else can write to it; its files are that user's.
//   - A process that is killed in the microseconds between creating and renaming a temporary
//     file leaves it, as .NAME.tmp and digits, beside the file NAME. Nothing reads it, and
//     [SweepTemp] removes it.
//   - Linux and macOS only.
package lockfile
