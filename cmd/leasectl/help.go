package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroupsOf are the groups of flags in the help, in their order. One list serves all commands,
// since a flag's name means the same in each. A flag in no group stands under otherFlags.
var flagGroupsOf = []struct{ heading, flags string }{
	{"Lease", "type count items also name key key-mode coalesce variant priority overcommit handle scope jitter wait-timeout ttl release-after optional owner-pid conflict-exit-code"},
	{"Command", "attempts retry-on on-lost"},
	{"Shared lease", "shared max-uses max-age linger service service-env service-timeout"},
	{"Signals", "grace-period parent-death"},
	{"Account", "in-log throttled-match throttled-on"},
	{otherFlags, ""},
	{"Proxy", "proxy required pool owner token-file token-from ca"},
	{"Output", "output quiet verbose help version"},
}

const otherFlags = "Flags"

// commandGroupsOf are the groups of commands in the help, each in its order. A command in no
// group stands in the last one.
var commandGroupsOf = []struct{ heading, commands string }{
	{"Work under a lease", "exec acquire release reacquire renew resize report"},
	{"Look, and clean up", "status whoami cat recover"},
	{"Run a proxy", "init serve pause resume reserve break remove move backup"},
	{"Do other things", "demo shell install-to version completion help"},
}

// commandGroup returns the index of a command's group, and the command's place in the group.
func commandGroup(name string) (group, place int) {
	for i, g := range commandGroupsOf {
		if place := slices.Index(strings.Fields(g.commands), name); place >= 0 {
			return i, place
		}
	}
	return len(commandGroupsOf) - 1, 0
}

// commandGroups lists the commands below cmd under their headings.
func commandGroups(cmd *cobra.Command) string {
	groups := make([][]*cobra.Command, len(commandGroupsOf))
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			group, _ := commandGroup(sub.Name())
			groups[group] = append(groups[group], sub)
		}
	}
	var text strings.Builder
	for i, group := range groups {
		slices.SortStableFunc(group, func(a, b *cobra.Command) int {
			_, placeOfA := commandGroup(a.Name())
			_, placeOfB := commandGroup(b.Name())
			return placeOfA - placeOfB
		})
		heading := commandGroupsOf[i].heading
		if cmd.HasParent() { // the commands below completion
			heading = "Commands"
		}
		if len(group) > 0 {
			text.WriteString("\n" + heading + ":\n")
		}
		for _, sub := range group {
			fmt.Fprintf(&text, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
	return text.String()
}

// headingOf returns the heading of a flag's group.
func headingOf(flag string) string {
	for _, g := range flagGroupsOf {
		if slices.Contains(strings.Fields(g.flags), flag) {
			return g.heading
		}
	}
	return otherFlags
}

// refuseUnknown makes help and completion, which cobra adds itself, fail for an unknown command
// or shell. Without refuseUnknown, cobra prints the help and succeeds.
func refuseUnknown(root *cobra.Command, args ...string) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				_, _, err := root.Find(args)
				return err
			}
		case "completion":
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// require says in the help that a command needs these flags. The command itself checks them, so
// that its error can say what to do.
func require(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flags.Lookup(name).Usage += " (required)"
	}
}

// printUsage prints the usage of a command like cobra, but with commands and flags in groups. It uses
// no template, since linking text/template would make every command start later.
func printUsage(cmd *cobra.Command) error {
	var text strings.Builder
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&text, "Usage:\n  %s\n", line)
	if cmd.HasExample() {
		fmt.Fprintf(&text, "\nExamples:\n%s\n", cmd.Example)
	}
	text.WriteString(commandGroups(cmd))
	if cmd.HasHelpSubCommands() {
		text.WriteString("\nTopics:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAdditionalHelpTopicCommand() {
				fmt.Fprintf(&text, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	text.WriteString(flagGroups(cmd))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "\n%s help COMMAND, or help TOPIC, says more.\n", cmd.Root().Name())
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), text.String())
	return err
}

// flagGroups lists the flags of a command under their headings.
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
