package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/leaseapi"
)

// completionTime bounds what somebody who has pressed TAB waits for the proxy.
const completionTime = time.Second

// completeValues makes the shell complete values of flags and arguments: fixed
// choices, types and names as the proxy has them, handles of the state directory.
// Only a completion needs it, so other commands do without.
func completeValues(root *cobra.Command, a *app) {
	root.InitDefaultHelpCmd() // cobra would make it later
	arguments := map[string]cobra.CompletionFunc{
		"break":  first(a.namesNow),
		"pause":  first(a.typesNow),
		"resume": first(a.typesNow),
		"help":   first(func() []string { return helpWords(root) }),
		"backup": nil, // files
		"exec":   nil, // a command
		"install-to": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	values := map[string]cobra.CompletionFunc{
		"type": func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return beginning(typed, a.typesNow()), cobra.ShellCompDirectiveNoFileComp
		},
		"names": func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return beginning(typed, listed(typed, a.namesNow())), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
		"handle": func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return beginning(typed, a.holder.Handles()), cobra.ShellCompDirectiveDefault
		},
		"proxy":        cobra.FixedCompletions([]string{"local", "unix://", "https://", "http://"}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace),
		"parent-death": cobra.FixedCompletions([]string{"TERM", "KILL", "INT", "HUP", "none"}, cobra.ShellCompDirectiveNoFileComp),
	}
	forEachCommand(root, func(cmd *cobra.Command) {
		if complete, takes := arguments[cmd.Name()]; takes {
			cmd.ValidArgsFunction = complete
		} else if cmd != root && cmd.ValidArgs == nil {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { completeFlag(cmd, f, values) })
	})
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { completeFlag(root, f, values) })
}

// first completes the first argument with one of words, and no other.
func first(words func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return beginning(typed, words()), cobra.ShellCompDirectiveNoFileComp
	}
}

// helpWords are the commands and the topics.
func helpWords(root *cobra.Command) (words []string) {
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() || cmd.IsAdditionalHelpTopicCommand() {
			words = append(words, cmd.Name()+"\t"+cmd.Short)
		}
	}
	return words
}

func completeFlag(cmd *cobra.Command, f *pflag.Flag, values map[string]cobra.CompletionFunc) {
	complete := values[f.Name]
	if choice, ok := f.Value.(value); ok && choice.words != nil {
		complete = cobra.FixedCompletions(choice.words, cobra.ShellCompDirectiveNoFileComp)
	}
	switch f.Value.Type() {
	case "int", "duration", "codes":
		complete = cobra.NoFileCompletions
	}
	if complete != nil {
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // it fails only for a flag that has one
	}
}

func forEachCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		forEachCommand(sub, f)
	}
}

// poolsNow are the pools of the proxy, if it answers soon. A local proxy is not
// started for that.
func (a *app) poolsNow() []leaseapi.Pool {
	if a.proxy.unset() {
		return nil
	}
	a.holder.Close() // it was made before the flags of the line were read
	a.openHolder()
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	client, err := a.holder.Running(ctx, a.proxy.url)
	if err != nil {
		return nil
	}
	defer client.Close()
	pools, err := client.Pools(ctx)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
	return pools
}

// typesNow are the types of the proxy, and of the pools that the line itself
// names.
func (a *app) typesNow() (types []string) {
	for _, p := range a.proxy.pools {
		types = append(types, p.Type)
	}
	for _, p := range a.poolsNow() {
		types = append(types, p.Type)
	}
	return types
}

// namesNow are the names of the leases that are held.
func (a *app) namesNow() (names []string) {
	for _, p := range a.poolsNow() {
		for _, l := range p.Leases {
			names = append(names, l.Name+"\t"+ownerOf(l.Owner, l.Token))
		}
	}
	return names
}

// listed are names as the next word of a list with commas.
func listed(typed string, names []string) (lists []string) {
	begun := typed[:strings.LastIndex(typed, ",")+1]
	for _, name := range names {
		lists = append(lists, begun+name)
	}
	return lists
}

// beginning are those words that begin with what is typed.
func beginning(typed string, words []string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, typed) })
}
