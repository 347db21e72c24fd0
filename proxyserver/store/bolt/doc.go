// Package bolt keeps the state of a lease server in a directory, as a bbolt file.
//
//   - A commit is one transaction, and is on the disk when it returns.
//   - A file that is damaged, or that another program made, is refused with what
//     is wrong and where, and stays as it is. Each record has a checksum, and one
//     record counts all others and names the transaction that wrote it. So a
//     record that was changed, lost or brought back is noticed.
//   - A file of an earlier format is brought to today's when it is opened. Earlier
//     programs then refuse it. A file of a later format is refused.
//   - A file that is removed, moved, replaced or cut short while it is open fails
//     the next commit or check.
//   - One process uses a directory at a time; another is refused with
//     [store.ErrInUse].
//
// All imports of bbolt are here, and everything that syncs a file.
//
// # Inside
//
// From the top down: bolt.go is the store, create.go and migrate.go change the
// file before it is used, load.go reads it as a whole, content.go
// writes and reads what package record says, table.go counts the records and seals
// them with checksums, pages.go finds them in the file, and options.go opens it.
// place.go tells which file is under the store's path.
//
// To read, the package does not use bbolt, which trusts its file: on a damaged page
// bbolt panics, partly in a goroutine of its own, and where a file was cut short
// its memory map ends the process with SIGBUS.
package bolt
