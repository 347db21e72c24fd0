package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// flagError rewords an error of the flag parser. It names the flag, the value, what is allowed,
// and where an empty value may come from. For an unknown flag it names the flags that were
// probably meant.
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
	return usagef("--%s %q: %w%s", invalid.GetFlag().Name, shownValue(invalid.GetFlag(), invalid.GetValue()), allowed(invalid.GetFlag(), invalid.Unwrap()), hint)
}

// shownValue returns a value of a flag as messages show it.
func shownValue(f *pflag.Flag, value string) string {
	if f.Name == "proxy" {
		value = proxyclient.Redacted(value)
	}
	return leaseapi.Shorten(value)
}

// similarFlags returns the flags that were probably meant: typed is a part of their name (--timeout
// of --wait-timeout), their name is among the words of typed (--owner in --lease-owner), or typed
// differs by one typo.
func similarFlags(flags *pflag.FlagSet, typed string) (similar []string) {
	typed = strings.ReplaceAll(typed, "_", "-")
	flags.VisitAll(func(f *pflag.Flag) {
		if len(typed) > 2 && !f.Hidden && (strings.Contains(f.Name, typed) || strings.Contains("-"+typed+"-", "-"+f.Name+"-") || leaseapi.OneTypo(f.Name, typed)) {
			similar = append(similar, f.Name)
		}
	})
	return similar
}

// allowed replaces strconv's error about a bool, which does not say what is allowed.
func allowed(f *pflag.Flag, err error) error {
	if f.Value.Type() == "bool" {
		return errors.New("want true or false")
	}
	return err
}

// annotation marks a flag whose value comes from the environment.
const annotation = "environment"

// typed tells whether a flag was given on the command line.
func typed(f *pflag.Flag) bool { return f.Changed && f.Annotations[annotation] == nil }

// ifTyped returns v, the value of f, if f was given on the command line; else zero.
func ifTyped[T any](f *pflag.Flag, v T) T {
	if !typed(f) {
		var none T
		return none
	}
	return v
}
