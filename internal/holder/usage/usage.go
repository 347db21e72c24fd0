// Package usage marks errors of the caller: what was asked for is wrong, such as a flag or a path,
// and nothing was done. leasectl ends with exit code 64 then.
package usage

import (
	"errors"
	"fmt"
)

// Err matches every error of the caller, see [errors.Is].
var Err = errors.New("usage")

// Errorf is [fmt.Errorf] for an error of the caller.
func Errorf(format string, args ...any) error { return Mark(fmt.Errorf(format, args...)) }

// Mark returns err as an error of the caller, with the same text.
func Mark(err error) error { return wrong{err} }

type wrong struct{ error }

func (e wrong) Unwrap() error        { return e.error }
func (e wrong) Is(target error) bool { return target == Err }
