// Package bolt keeps the state of a lease server in a directory, as a bbolt file.
//
//   - A commit is one transaction, and is on the disk when it returns.
//   - A damaged file, or a file of another program, is refused, and stays as it is. The
//     error says what is wrong, and where. Each record has a checksum. One record has the
//     count of all others, and the number of the transaction that wrote it. So changed,
//     lost and outdated records are noticed.
//   - A file of another format is refused, and stays as it is.
//   - If the file is removed, moved, replaced or cut short while it is open, the next
//     commit or check fails.
//   - One process uses a directory at a time; another is refused with
//     [store.ErrInUse].
//
// No other package of the program imports bbolt, or syncs files.
//
// The package reads the file without bbolt, because bbolt trusts its file. On a damaged
// page bbolt panics, sometimes in a goroutine of its own. If the file was cut short, an
// access to bbolt's memory map ends the process with SIGBUS.
package bolt
