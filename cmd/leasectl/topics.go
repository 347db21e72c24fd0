package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newTopics are the texts of leasectl help that are of no one command.
func newTopics() []*cobra.Command {
	return []*cobra.Command{
		newTopic("environment", "the variables that leasectl reads, and those that exec sets", environmentHelp),
		newTopic("exit-codes", "what each exit code means", func(*cobra.Command) string { return exitCodesHelp() }),
	}
}

// newTopic makes a topic whose text is made when it is asked for.
func newTopic(name, short string, text func(root *cobra.Command) string) *cobra.Command {
	topic := &cobra.Command{Use: name, Short: short}
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), text(cmd.Root())) })
	return topic
}

// otherVariables are read, but are no flag's.
var otherVariables = [][2]string{
	{proxyVariable, "--proxy, unless LEASECTL_PROXY is set"},
	{"LEASECTL_STATE_DIR", "where handles, the journal and the local proxy are (default: /tmp/leasectl-$UID)"},
	{"SHARED_DIR", "the directory of the list of names, for --scope test"},
	{"http_proxy, https_proxy, no_proxy", "how to reach an HTTP proxy on the way, as with curl"},
}

// commandVariables are what exec sets for its command.
var commandVariables = [][2]string{
	{"LEASECTL_STATE", "acquired; skipped in a dry run; degraded if the lease is optional and none was had"},
	{"LEASECTL_HANDLE", "the path of the handle; empty without a lease"},
	{"LEASECTL_NAMES", "the names, separated by commas; empty without a lease"},
	{"LEASECTL_GENERATION", "a number that grows with every grant of the proxy: a fencing token. Not set with a version-1 proxy"},
	{"LEASED_RESOURCE", "the name, if it is one; else what the job had there"},
	{"LEASECTL_REQUEST_ID", "by which the proxy knows the lease, also when it has ended"},
	{"LEASECTL_UNITS", "how many units of a counted pool the lease held when the command began"},
	{"LEASECTL_USES", "with --shared: which uses the command runs under, for a leasectl inside it"},
}

func environmentHelp(root *cobra.Command) string {
	var text strings.Builder
	text.WriteString("Each flag has a variable, which counts if the flag is not given and the variable\n" +
		"is not empty. These flags have none, since they must not leak into a leasectl\n" +
		"inside another's command: --" + strings.Join(notFromEnvironment, ", --") + "\n\nFlags:\n")
	writeRows(&text, variables(root))
	text.WriteString("\nOthers:\n")
	writeRows(&text, otherVariables)
	text.WriteString("\nExec sets for its command:\n")
	writeRows(&text, commandVariables)
	return text.String()
}

func exitCodesHelp() string {
	var text strings.Builder
	text.WriteString("Exit codes:\n")
	writeRows(&text, exitMeanings)
	return text.String()
}

// writeRows writes two columns.
func writeRows(text *strings.Builder, rows [][2]string) {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	for _, row := range rows {
		fmt.Fprintf(text, "  %-*s  %s\n", width, row[0], row[1])
	}
}

// variables are those that the flags of all commands have, with the flags.
func variables(root *cobra.Command) (rows [][2]string) {
	seen := make(map[string]bool)
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "completion" { // that is cobra's
			return
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if name := variableOf(f); name != "" && !seen[name] {
				seen[name] = true
				rows = append(rows, [2]string{name, "--" + f.Name})
			}
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
	slices.SortFunc(rows, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return rows
}
