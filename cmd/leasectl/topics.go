package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newTopics returns the topics of leasectl help that are not about a single command.
func newTopics() []*cobra.Command {
	return []*cobra.Command{
		newTopic("environment", "the variables that leasectl reads, and those that exec sets", environmentHelp),
		newTopic("exit-codes", "what each exit code means", func(*cobra.Command) string { return exitCodesHelp() }),
	}
}

// newTopic makes a topic. Its text is made only when it is shown.
func newTopic(name, short string, text func(root *cobra.Command) string) *cobra.Command {
	topic := &cobra.Command{Use: name, Short: short}
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), text(cmd.Root())) })
	return topic
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

// variables returns the variables of all commands' flags, each with its flag.
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
