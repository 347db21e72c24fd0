package main

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/dial"
)

type catOptions struct {
	handle string
	format string
}

func newCatCommand(a *app) *cobra.Command {
	o := new(catOptions)
	cmd := &cobra.Command{
		Use:   "cat --handle HANDLE",
		Short: "print the names that a handle holds",
		Long: `Cat prints the names of a handle's leases: one a line, on one line separated by
commas, or all that the handle knows but passwords, as JSON. A handle that is
gone holds nothing, so nothing is printed.`,
		Example: `  leasectl cat --handle "$handle" --format csv`,
		Args:    noArgsBut("handle"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if whyNoHandle(cmd) != "" {
				return nil // prints nothing, like a handle that is gone
			}
			return a.cat(o)
		},
	}
	cmd.Flags().Var(handleValue(&o.handle), "handle", "the handle that acquire printed")
	cmd.Flags().Var(choiceValue(&o.format, "", "plain", "csv", "json"), "format", "plain, csv or json (default: plain, or json with --output json)")
	require(cmd.Flags(), "handle")
	return cmd
}

func (a *app) cat(o *catOptions) error {
	if o.handle == "" {
		return noHandle("to print")
	}
	handle, err := holder.OpenHandle(o.handle)
	if err != nil {
		return err
	}
	record, err := handle.Read()
	names := record.NamesInFile()
	json := o.format == "json" || o.format == "" && a.output == "json"
	newer := errors.Is(err, holder.ErrNewer) && len(names) > 0 && !json // its names can be read all the same
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !newer {
		return err
	}
	switch {
	case record.State == "" && !newer:
		return nil
	case json:
		return a.printJSON(dial.Redacted(record))
	case o.format == "csv" && len(names) > 0:
		return a.print("%s\n", strings.Join(names, ","))
	}
	return a.printLines(names)
}
