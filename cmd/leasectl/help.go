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

// commandGroupsOf are the groups of commands in the help, each in its order. A command
// that is in none stands in the last.
var commandGroupsOf = []struct{ heading, commands string }{
	{"Work under a lease", "exec acquire release reacquire renew resize report"},
	{"Look, and clean up", "status cat recover"},
	{"Run a proxy", "serve pause resume break remove backup"},
	{"Do other things", "shell install-to version completion help"},
}

// commandGroup is the number of a command's group, and its place in that.
func commandGroup(name string) (group, place int) {
	for i, g := range commandGroupsOf {
		if place := slices.Index(strings.Fields(g.commands), name); place >= 0 {
			return i, place
		}
	}
	return len(commandGroupsOf) - 1, 0
}

// commandGroups are the commands below cmd with their headings.
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
		if cmd.HasParent() { // those of completion
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

// headingOf is the group of a flag.
func headingOf(flag string) string {
	for _, g := range flagGroupsOf {
		if slices.Contains(strings.Fields(g.flags), flag) {
			return g.heading
		}
	}
	return otherFlags
}

// refuseUnknown makes help and completion, which cobra adds by itself, fail for a command
// or shell that there is none of. By itself cobra prints the help, and succeeds.
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
