// Package bolt keeps the state of a lease server in a directory, as a bbolt file.
//
//   - A commit is one transaction, and is on the disk when it returns.
//   - A file that is damaged, or that another program made, is refused with the
//     reason and stays as it is.
//   - One process uses a directory at a time; another is refused with
//     [store.ErrInUse].
//
// All imports of bbolt are here, and everything that syncs a file.
package bolt
