package pool

import "fmt"

// Result is how a request ended that never got a lease, since another's run stood
// for its own. Zero: it did not end so.
type Result int32

// Superseded is the result of a request whose place a newer one took; see [Latest].
const Superseded Result = -1

// Exited returns the result of a run whose command ended by itself, with code.
func Exited(code int) Result { return Result(code) + 1 }

// ExitCode returns the code of [Exited]; false if r is none such.
func (r Result) ExitCode() (code int, ok bool) { return int(r) - 1, r > 0 }

// String returns r in words.
func (r Result) String() string {
	if code, ok := r.ExitCode(); ok {
		return fmt.Sprintf("the run that it joined ended with exit code %d", code)
	}
	return "a newer request took its place"
}

// CoalescedError is the end of a request that merged with another; see [Coalesce]. It
// is [ErrEnded].
type CoalescedError struct{ Result Result }

func (e *CoalescedError) Error() string { return e.Result.String() }

// Is makes the error an [ErrEnded].
func (e *CoalescedError) Is(target error) bool { return target == ErrEnded }
