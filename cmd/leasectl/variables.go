package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/leaseapi"
)

// proxyVariable is the variable in which step scripts have always had the proxy's URL.
const proxyVariable = "LEASE_PROXY_SERVER_URL"

// notFromEnvironment are the flags without a variable. With one they would leak into a leasectl
// that runs inside another's command, make a script wait for ever, do without the word of an
// operator (--forget, --now, --reason and --for), or make a success of a command that did not run
// (--conflict-exit-code).
var notFromEnvironment = []string{"handle", "names", "name", "type", "count", "items", "also", "key", "key-mode", "priority", "overcommit", "coalesce", "variant", "in-log", "throttled-match", "throttled-on", "detail", "watch", "all",
	"shared", "max-uses", "max-age", "linger", "service", "service-env", "service-timeout", "conflict-exit-code", "forget", "now", "reason", "for"}

// bindEnvironment gives each flag that was not set on the command line the value of its variable,
// LEASECTL_ and the flag's name, if the variable is not empty. A bad value is a usage error.
func bindEnvironment(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	var failed error
	flags := cmd.Flags()
	sorted := flags.SortFlags
	flags.SortFlags = false // sorting would cost time, and order does not matter here
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
			failed = usagef("%s=%q: %w", name, shownValue(f, value), cause)
		}
		f.Annotations = map[string][]string{annotation: {name}}
	})
	return failed
}

// namingVariables adds to a usage error which of the flags in its text were set by
// variables: nobody typed those.
func namingVariables(flags *pflag.FlagSet, err error) error {
	if !errors.As(err, new(usageError)) {
		return err
	}
	text := err.Error()
	words := strings.FieldsFunc(text, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') })
	var set []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(words, "--"+f.Name) || f.Annotations[annotation] == nil {
			return
		}
		if name := f.Annotations[annotation][0]; !strings.Contains(text, name) {
			set = append(set, fmt.Sprintf("--%s is set by the variable %s", f.Name, name))
		}
	})
	if set == nil {
		return err
	}
	return usageError{fmt.Errorf("%w (%s)", err, strings.Join(set, ", "))}
}

// mistypedVariables returns each variable that nobody reads with the variable of the command that
// was probably meant. It takes time only if the command does not know a LEASECTL_ variable. Names
// as short as LEASECTL_CA are not guessed: too many names of others are one typo away. Without a proxy
// each name such as LEASE_PROXY_URL may have been meant for its address.
func mistypedVariables(flags *pflag.FlagSet, environ []string, noProxy bool) (pairs [][2]string) {
	for _, v := range environ {
		if !strings.HasPrefix(v, "LEASE") {
			continue
		}
		name, value, _ := strings.Cut(v, "=")
		if noProxy && value != "" && name != proxyVariable && strings.Contains(name, "PROXY") && !isOurs(name) {
			pairs = append(pairs, [2]string{name, proxyVariable})
			continue
		}
		if !strings.HasPrefix(name, "LEASECTL_") {
			continue
		}
		typed := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "LEASECTL_"), "_", "-"))
		if value == "" || flags.Lookup(typed) != nil || isOurs(name) {
			continue
		}
		flags.VisitAll(func(f *pflag.Flag) {
			if meant := variableOf(f); meant != "" && len(f.Name) > 3 && leaseapi.OneTypo(typed, f.Name) {
				pairs = append(pairs, [2]string{name, meant})
			}
		})
	}
	return pairs
}

// isOurs tells whether leasectl reads or sets a variable that belongs to no flag.
func isOurs(name string) bool {
	is := func(row [2]string) bool { return row[0] == name }
	return slices.ContainsFunc(otherVariables, is) || slices.ContainsFunc(commandVariables, is) || strings.HasPrefix(name, "LEASECTL_NAMES_")
}

// variableOf returns the variable of a flag; "" if it has none.
func variableOf(f *pflag.Flag) string {
	if f.Hidden || f.Name == "help" || f.Name == "version" || slices.Contains(notFromEnvironment, f.Name) {
		return ""
	}
	return "LEASECTL_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// otherVariables are the variables that leasectl reads and that belong to no flag.
var otherVariables = [][2]string{
	{proxyVariable, "--proxy, unless LEASECTL_PROXY is set"},
	{"LEASECTL_STATE_DIR", "where handles, the journal and the local proxy are (default: /tmp/leasectl-$UID)"},
	{"SHARED_DIR", "the directory of the list of names, for --scope test"},
	{"http_proxy, https_proxy, no_proxy", "how to reach an HTTP proxy on the way, as with curl"},
}

// commandVariables are the variables that exec sets for its command.
var commandVariables = [][2]string{
	{"LEASECTL_STATE", "acquired; skipped in a dry run; degraded if the lease is optional and none was had"},
	{"LEASECTL_HANDLE", "the path of the handle; empty without a lease"},
	{"LEASECTL_NAMES", "the names, separated by commas; empty without a lease"},
	{"LEASECTL_NAMES_TYPE", "with --also: the names of one type, which stands in upper case, with _ for all but letters and digits. exec refuses two types that would share one"},
	{"LEASECTL_GENERATION", "a number that grows with every grant of the proxy: a fencing token. Not set without a lease, nor with a version-1 proxy"},
	{"LEASED_RESOURCE", "the name, if it is one; else what the job had there"},
	{"LEASECTL_REQUEST_ID", "by which the proxy knows the lease, also when it has ended. Not set without a lease"},
	{"LEASECTL_UNITS", "how many units of a counted pool the lease held when the command began. Not set without one"},
	{"LEASECTL_USES", "with --shared: which uses the command runs under, for a leasectl inside it"},
	{"LEASECTL_OUTER_GRACE_PERIOD", "how long the command has to end after TERM, for a leasectl inside it"},
}
