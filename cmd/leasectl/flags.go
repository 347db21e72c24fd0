package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/leaseapi"
)

// flagError words an error of the flag parser: the flag, the value, what is
// allowed, and where an empty value comes from; of a flag that the command does not
// have, which ones were probably meant.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if similar := similarFlags(cmd.Flags(), unknown.GetSpecifiedName()); len(similar) > 0 {
			return usagef("%s: did you mean --%s", leaseapi.Shorten(err.Error()), strings.Join(similar, " or --"))
		}
		return usagef("%s: %s --help lists the flags", leaseapi.Shorten(err.Error()), cmd.CommandPath())
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return usagef("%s", leaseapi.Shorten(err.Error()))
	}
	hint := ""
	if invalid.GetValue() == "" {
		hint = ": if a variable has it, it is empty"
	}
	return usagef("--%s %q: %w%s", invalid.GetFlag().Name, leaseapi.Shorten(invalid.GetValue()), allowed(invalid.GetFlag(), invalid.Unwrap()), hint)
}

// similarFlags are the flags whose name has what was typed as a part, as --wait-timeout
// has --timeout, or whose words are among those that were typed, as --owner is of
// --lease-owner, or that were typed with one typo.
func similarFlags(flags *pflag.FlagSet, typed string) (similar []string) {
	typed = strings.ReplaceAll(typed, "_", "-")
	flags.VisitAll(func(f *pflag.Flag) {
		if len(typed) > 2 && !f.Hidden && (strings.Contains(f.Name, typed) || strings.Contains("-"+typed+"-", "-"+f.Name+"-") || leaseapi.OneTypo(f.Name, typed)) {
			similar = append(similar, f.Name)
		}
	})
	return similar
}

// allowed replaces the errors of strconv, which say what failed but not what
// would do.
func allowed(f *pflag.Flag, err error) error {
	if f.Value.Type() == "bool" {
		return errors.New("want true or false")
	}
	return err
}

// annotation marks a flag that has its value from the environment.
const annotation = "environment"

// typed tells whether a flag was given on the command line.
func typed(f *pflag.Flag) bool { return f.Changed && f.Annotations[annotation] == nil }

// ifTyped is the value of a flag, or zero if only the environment has set it.
func ifTyped[T any](f *pflag.Flag, v T) T {
	if !typed(f) {
		var none T
		return none
	}
	return v
}
