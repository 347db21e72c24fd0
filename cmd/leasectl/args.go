package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/supervisor"
)

// noArgs refuses arguments that are no flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("%s accepts no arguments, found %q", cmd.CommandPath(), leaseapi.Shorten(args[0]))
}

// noArgsBut is noArgs for a command to which what was typed may be the value of a flag:
// the error says so.
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

// withoutLease says why a command has no lease, if it runs under an exec that has none:
// then LEASECTL_HANDLE is empty, and a script that uses it makes no mistake. It is ""
// elsewhere, also under an exec with a lease whose script has lost the variable.
func withoutLease() string {
	state := os.Getenv("LEASECTL_STATE")
	if state == "" || state == supervisor.StateAcquired || os.Getenv("LEASECTL_HANDLE") != "" {
		return ""
	}
	return "the command runs without a lease (" + state + ")"
}

// handleAround is the handle of the exec that a command runs under; "" if it runs under
// none, also if a script has a variable of that name for a lease of its own.
func handleAround() string {
	if os.Getenv("LEASECTL_STATE") != supervisor.StateAcquired {
		return ""
	}
	return os.Getenv("LEASECTL_HANDLE")
}

// lacksLease is withoutLease for a command whose --handle is empty.
func lacksLease(cmd *cobra.Command) string {
	if f := cmd.Flags().Lookup("handle"); !f.Changed || f.Value.String() != "" {
		return ""
	}
	return withoutLease()
}

// noHandle is the error of a command without --handle, where what says which one it needs.
// The one of the exec around is not taken by itself: the command may have lost the handle
// of a lease of its own.
func noHandle(what string) error {
	if handleAround() != "" {
		return usagef("no --handle: name the handle %s: --handle \"$LEASECTL_HANDLE\" is the one of the exec around", what)
	}
	return usagef("no --handle: name the handle %s", what)
}

// oneArg takes one argument, which what describes.
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
