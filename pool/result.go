package pool

import "fmt"

// Result is how a request ended that got no lease because it merged with another. Zero: it
// ended in another way.
type Result int32

// Superseded is the result of a request that a newer one replaced; see [Latest].
const Superseded Result = -1

// Exited returns the result of a run whose command ended by itself, with code.
func Exited(code int) Result { return Result(code) + 1 }

// ExitCode returns the code given to [Exited]; false if r is not such a result.
func (r Result) ExitCode() (code int, ok bool) { return int(r) - 1, r > 0 }

// String returns r in words.
func (r Result) String() string {
	if code, ok := r.ExitCode(); ok {
		return fmt.Sprintf("the run that it joined ended with exit code %d", code)
	}
	return "a newer request took its place"
}

// CoalescedError ends a request that merged with another; see [Coalesce]. It matches
// [ErrEnded].
type CoalescedError struct{ Result Result }

func (e *CoalescedError) Error() string { return e.Result.String() }

// Is makes the error an [ErrEnded].
func (e *CoalescedError) Is(target error) bool { return target == ErrEnded }
