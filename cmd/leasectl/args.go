package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/supervisor"
	"github.com/leasectl/leasectl/leaseapi"
)

// noArgs refuses positional arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("%s accepts no arguments, found %q", cmd.CommandPath(), leaseapi.Shorten(args[0]))
}

// noArgsBut is noArgs for a command whose argument was probably meant as the value of flag. The
// error suggests this flag.
func noArgsBut(flag string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		flag := flag
		if cmd.Flags().Lookup("names") != nil && flag == "names" && looksLikeFile(args[0]) {
			flag = "handle"
		}
		return usagef("%s accepts no arguments, found %q: did you mean --%s %s", cmd.CommandPath(), leaseapi.Shorten(args[0]), flag, leaseapi.Shorten(args[0]))
	}
}

// looksLikeFile tells whether a word is the path of a file, or is typed like one.
func looksLikeFile(path string) bool {
	_, err := os.Lstat(path)
	return err == nil || strings.Contains(path, "/") && errors.Is(err, fs.ErrNotExist)
}

// whyNoLease says why there is no lease, if leasectl runs under an exec without one. Such an
// exec sets LEASECTL_HANDLE to "", so a script that passes the variable on makes no mistake.
// Elsewhere whyNoLease returns "", also if the script under an exec with a lease has lost the
// variable.
func whyNoLease() string {
	state := os.Getenv("LEASECTL_STATE")
	if state == "" || state == supervisor.StateAcquired || os.Getenv("LEASECTL_HANDLE") != "" {
		return ""
	}
	return "the command runs without a lease (" + state + ")"
}

// handleAround returns the handle of the exec that leasectl runs under; "" if there is none.
// LEASECTL_STATE decides, since a script may set LEASECTL_HANDLE for a lease of its own.
func handleAround() string {
	if os.Getenv("LEASECTL_STATE") != supervisor.StateAcquired {
		return ""
	}
	return os.Getenv("LEASECTL_HANDLE")
}

// requestAround returns the id of the request of that exec; "" if there is none.
func requestAround() string {
	id := os.Getenv("LEASECTL_REQUEST_ID")
	if handleAround() == "" || leaseapi.CheckRequestID(id) != nil {
		return ""
	}
	return id
}

// whyNoHandle says why the value of --handle is empty, if that is not a mistake: see [whyNoLease].
// It returns "" if --handle was not given, or has a value.
func whyNoHandle(cmd *cobra.Command) string {
	if f := cmd.Flags().Lookup("handle"); !f.Changed || f.Value.String() != "" {
		return ""
	}
	return whyNoLease()
}

// noHandle returns the error for a missing --handle; what describes the handle that is needed.
// The handle of the exec around is no default, since the script may have lost the handle of a
// lease of its own.
func noHandle(what string) error {
	if handleAround() != "" {
		return usagef("no --handle: name the handle %s: --handle \"$LEASECTL_HANDLE\" is the one of the exec around", what)
	}
	return usagef("no --handle: name the handle %s", what)
}

// noSuchHandle says of a path that no handle is there. To give such a lease back, or to look at it, succeeds.
const noSuchHandle = "handle %s does not exist: it was released, or never acquired"

// bindWithoutLease binds --optional of a command that needs the lease of a handle.
func bindWithoutLease(flags *pflag.FlagSet, optional *bool) {
	flags.BoolVar(optional, "optional", false, "succeed if the handle does not exist, as after an acquire --optional without a lease, and say so")
}

// withoutLease ends a command that needs the lease of a handle that does not exist. That is a failure unless it is a dry run, or the
// lease is optional. what says what the command does not do.
func (a *app) withoutLease(handle holder.Handle, optional bool, what string) error {
	switch {
	case a.proxy.unset():
		return a.dryRun("%s", what)
	case !optional:
		return fmt.Errorf(noSuchHandle+": %s: acquire a lease, or give --optional", handle.Path(), what)
	}
	a.Failf("going on without a lease: "+noSuchHandle+": %s", handle.Path(), what)
	return nil
}

// oneArg wants one argument that is not empty; what describes it.
func oneArg(what, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return usagef("%s needs %s, such as %s", cmd.CommandPath(), what, example)
		case 1:
			if args[0] == "" {
				return usagef("%s needs %s, and it is empty: if a variable has it, that is empty", cmd.CommandPath(), what)
			}
			return nil
		}
		return usagef("%s accepts one argument, %s, found %q too", cmd.CommandPath(), what, leaseapi.Shorten(args[1]))
	}
}

// mistyped puts cobra's error about an unknown command on one line.
func mistyped(err error) error {
	text, suggested, found := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
	text = leaseapi.Shorten(text)
	if !found {
		return errors.New(text + ": leasectl help lists the commands")
	}
	return errors.New(text + ": did you mean " + strings.Join(strings.Fields(suggested), " or "))
}
