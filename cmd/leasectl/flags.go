package main

import (
	"errors"
	"slices"
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
// --lease-owner.
func similarFlags(flags *pflag.FlagSet, typed string) (similar []string) {
	typed = strings.ReplaceAll(typed, "_", "-")
	flags.VisitAll(func(f *pflag.Flag) {
		if len(typed) > 2 && !f.Hidden && (strings.Contains(f.Name, typed) || strings.Contains("-"+typed+"-", "-"+f.Name+"-")) {
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

// proxyVariable is where step scripts have always had the proxy's address.
const proxyVariable = "LEASE_PROXY_SERVER_URL"

// notFromEnvironment are the flags without a variable: they must not leak into
// a leasectl that runs inside another's child, or make a script wait for good.
var notFromEnvironment = []string{"handle", "names", "type", "count", "items", "key", "overcommit", "coalesce", "variant", "in-log", "throttled-match", "throttled-on", "detail", "watch", "all",
	"shared", "max-uses", "max-age", "linger"}

// bindEnvironment gives every flag that was not set on the command line the
// value of its variable, LEASECTL_ and the flag's name, if that is set and not
// empty.
func bindEnvironment(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	var failed error
	flags := cmd.Flags()
	sorted := flags.SortFlags
	flags.SortFlags = false // their order means nothing here
	defer func() { flags.SortFlags = sorted }()
	flags.VisitAll(func(f *pflag.Flag) {
		name := variableOf(f)
		if f.Changed || name == "" || failed != nil {
			return
		}
		value, ok := lookup(name)
		if (!ok || value == "") && f.Name == "proxy" {
			name = proxyVariable
			value, ok = lookup(name)
		}
		if !ok || value == "" {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			cause := err
			if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
				cause = allowed(f, invalid.Unwrap())
			}
			failed = usagef("%s=%q: %w", name, leaseapi.Shorten(value), cause)
		}
		f.Annotations = map[string][]string{annotation: {name}}
	})
	return failed
}

// variableOf is the variable of a flag; "" if it has none.
func variableOf(f *pflag.Flag) string {
	if f.Hidden || f.Name == "help" || f.Name == "version" || slices.Contains(notFromEnvironment, f.Name) {
		return ""
	}
	return "LEASECTL_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
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
