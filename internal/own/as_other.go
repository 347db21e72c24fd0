//go:build !linux

package own

// adopts says that root can use the directories of another user, which takes the rights of that user.
const adopts = false

func as(_ Owner, fn func() error) error { return fn() }
