package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// completionTime bounds the wait for the proxy after somebody has pressed TAB.
const completionTime = time.Second

// completeValues makes the shell complete values of flags and arguments: fixed choices, types
// and names of the proxy, handles of the state directory. It takes time and only a completion
// needs it, so other commands do not call it.
func completeValues(root *cobra.Command, a *app) {
	root.InitDefaultHelpCmd() // cobra would add the help command too late
	arguments := map[string]cobra.CompletionFunc{
		"break":   first(a.namesNow),
		"pause":   first(a.typesNow),
		"resume":  first(a.typesNow),
		"reserve": first(func() []string { return a.namesOf("") }),
		"help":    first(func() []string { return helpWords(root) }),
		"backup":  nil, // files
		"exec":    nil, // a command
		"install-to": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	values := map[string]cobra.CompletionFunc{
		"type": func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return beginning(typed, a.typesNow()), cobra.ShellCompDirectiveNoFileComp
		},
		"also": func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return beginning(typed, a.typesNow()), cobra.ShellCompDirectiveNoFileComp
		},
		"names": func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return beginning(typed, listed(typed, a.namesNow())), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		},
		"name": func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			var typ string
			if f := cmd.Flags().Lookup("type"); f != nil {
				typ = f.Value.String()
			}
			return beginning(typed, a.namesOf(typ)), cobra.ShellCompDirectiveNoFileComp
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

// first completes only the first argument, with one of words.
func first(words func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return beginning(typed, words()), cobra.ShellCompDirectiveNoFileComp
	}
}

// helpWords returns the names of commands and topics, each with its description.
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
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // fails only if the flag has a completion
	}
}

func forEachCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		forEachCommand(sub, f)
	}
}

// poolsNow returns the pools of the proxy, if it answers within completionTime. It does not
// start a local proxy.
func (a *app) poolsNow() (pools []leaseapi.Pool) {
	a.askNow(func(ctx context.Context, client *proxyclient.Client) (err error) {
		pools, err = client.Pools(ctx)
		return err
	})
	return pools
}

// askNow asks the proxy for what somebody waits for who has pressed TAB.
func (a *app) askNow(ask func(context.Context, *proxyclient.Client) error) {
	if a.proxy.unset() {
		return
	}
	a.holder.Close() // made before the flags of the line were parsed
	a.openHolder()
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	client, err := a.holder.Running(ctx, a.proxy.url)
	if err != nil {
		return
	}
	defer client.Close()
	if err := ask(ctx, client); err != nil {
		cobra.CompDebugln(err.Error(), false)
	}
}

// namesOf returns the names of the listed pool of a type, or of all listed pools if typ is empty, each with its state,
// and the free ones first.
func (a *app) namesOf(typ string) (names []string) {
	types := []string{typ}
	if typ == "" {
		types = types[:0]
		for _, p := range a.poolsNow() {
			if !p.Counted {
				types = append(types, p.Type)
			}
		}
	}
	var taken []string
	a.askNow(func(ctx context.Context, client *proxyclient.Client) error {
		for _, typ := range types {
			of, err := client.Overview(ctx, typ)
			if err != nil {
				return err
			}
			for _, p := range of.Pools {
				for _, n := range p.Names {
					if n.State == leaseapi.NameIsFree {
						names = append(names, n.Name+"\t"+n.State)
					} else {
						taken = append(taken, n.Name+"\t"+n.State)
					}
				}
			}
		}
		return nil
	})
	return append(names, taken...)
}

// typesNow returns the types of the proxy, and of the pools that --pool names.
func (a *app) typesNow() (types []string) {
	for _, p := range a.proxy.pools {
		types = append(types, p.Type)
	}
	for _, p := range a.poolsNow() {
		types = append(types, p.Type)
	}
	return types
}

// namesNow returns the names of the leases that are held, each with its owner.
func (a *app) namesNow() (names []string) {
	for _, p := range a.poolsNow() {
		for _, l := range p.Leases {
			names = append(names, l.Name+"\t"+ownerOf(l.Owner, l.Token))
		}
	}
	return names
}

// listed returns, for each name, the list typed so far with name as its last element.
func listed(typed string, names []string) (lists []string) {
	begun := typed[:strings.LastIndex(typed, ",")+1]
	for _, name := range names {
		lists = append(lists, begun+name)
	}
	return lists
}

// beginning returns the words that begin with typed. It overwrites words.
func beginning(typed string, words []string) []string {
	return slices.DeleteFunc(words, func(word string) bool {
		return !strings.HasPrefix(word, typed) || strings.HasPrefix(word, "-") // which would be an option
	})
}
