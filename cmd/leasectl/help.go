package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroupsOf are the groups of flags in the help of a command, in their order,
// as flags of one name mean one thing in all commands. A flag that is in none
// stands under Flags.
var flagGroupsOf = []struct{ heading, flags string }{
	{"Lease", "type count items key coalesce variant overcommit handle scope jitter wait-timeout ttl release-after optional owner-pid conflict-exit-code"},
	{"Command", "attempts retry-on on-lost"},
	{"Shared lease", "shared max-uses max-age linger"},
	{"Signals", "grace-period parent-death"},
	{"Account", "in-log throttled-match throttled-on"},
	{otherFlags, ""},
	{"Proxy", "proxy pool owner token-file ca"},
	{"Output", "output quiet verbose help version"},
}

const otherFlags = "Flags"

// headingOf is the group of a flag.
func headingOf(flag string) string {
	for _, g := range flagGroupsOf {
		if slices.Contains(strings.Fields(g.flags), flag) {
			return g.heading
		}
	}
	return otherFlags
}

// require says in the help that a command needs these flags. The command checks
// that itself, with what to do.
func require(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flags.Lookup(name).Usage += " (required)"
	}
}

// usage prints how a command is used. It is cobra's own, but for the flags, which
// stand in groups. (A template would link text/template in, and make every
// command start later.)
func usage(cmd *cobra.Command) error {
	var text strings.Builder
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&text, "Usage:\n  %s\n", line)
	if cmd.HasExample() {
		fmt.Fprintf(&text, "\nExamples:\n%s\n", cmd.Example)
	}
	list := func(heading string, wanted func(*cobra.Command) bool) {
		for _, sub := range cmd.Commands() {
			if wanted(sub) {
				if heading != "" {
					fmt.Fprintf(&text, "\n%s:\n", heading)
					heading = ""
				}
				fmt.Fprintf(&text, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	list("Available Commands", (*cobra.Command).IsAvailableCommand)
	list("Topics", (*cobra.Command).IsAdditionalHelpTopicCommand)
	text.WriteString(flagGroups(cmd))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "\n%s help COMMAND says more of a command, or of a topic.\n", cmd.Root().Name())
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), text.String())
	return err
}

// flagGroups are the flags of a command with their headings.
func flagGroups(cmd *cobra.Command) string {
	sets := make(map[string]*pflag.FlagSet)
	add := func(f *pflag.Flag) {
		name := headingOf(f.Name)
		if sets[name] == nil {
			sets[name] = pflag.NewFlagSet(name, pflag.ContinueOnError)
			sets[name].SortFlags = false
		}
		sets[name].AddFlag(f)
	}
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		flags.SortFlags = false
		flags.VisitAll(add)
	}
	var text strings.Builder
	for _, g := range flagGroupsOf {
		if set := sets[g.heading]; set != nil && set.HasAvailableFlags() {
			text.WriteString("\n" + g.heading + ":\n" + set.FlagUsages())
		}
	}
	return text.String()
}
