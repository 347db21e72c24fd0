package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/recovery"
	"github.com/leasectl/leasectl/leaseapi"
)

type recoverOptions struct {
	forget []string
}

func newRecoverCommand(a *app) *cobra.Command {
	o := new(recoverOptions)
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "settle what killed runs left",
		Long: `Recover gives back what leasectl processes had asked for, held or begun to
release when they were killed, as their journal and the handles in the state
directory say, and removes the files they left. It prints what it did, a line
each. What live processes are about is not touched.

A version-1 proxy cannot say what became of a request, or of a release that got no
good answer. Such a request, or name, is listed as unconfirmed, with exit code 1,
until --forget names it. So is, with exit code 69, what cannot be settled since its
proxy does not answer: if that proxy is gone for good, --forget drops it.`,
		Example: `  leasectl recover`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("forget") && len(o.forget) == 0 {
				return usagef("--forget wants the id of a request or a name: if a variable has it, it is empty")
			}
			return a.recover(cmd.Context(), o)
		},
	}
	cmd.Flags().StringSliceVar(&o.forget, "forget", nil, "ids or names of what to drop: unconfirmed and looked after by hand, or of a proxy that is gone for good")
	return cmd
}

var errUnconfirmed = errors.New("unconfirmed: look at the proxy what is held there, give it back, then drop the line with leasectl recover --forget ID")

func (a *app) recover(ctx context.Context, o *recoverOptions) error {
	actions, failures := recovery.Run(ctx, a.holder, o.forget)
	ended := a.printActions(actions)
	if ended == nil && ctx.Err() != nil {
		ended = context.Cause(ctx)
	}
	unconfirmed := 0
	for _, act := range actions {
		if act.Result == recovery.Unconfirmed {
			unconfirmed++
		}
	}
	if unconfirmed > 0 {
		failures = append(failures, fmt.Errorf("%d %w", unconfirmed, errUnconfirmed))
	}
	if ended != nil {
		failures = slices.Insert(failures, 0, ended)
	}
	if len(failures) == 0 {
		return nil
	}
	// Each failure is printed, the first one by run. The first one determines the exit code: that of
	// a signal, or of an output that failed, has precedence.
	for _, err := range failures[1:] {
		a.Failf("%s", holder.Describe(err))
	}
	return failures[0]
}

func (a *app) printActions(actions []recovery.Action) error {
	if a.output == "json" {
		return a.printJSON(struct {
			Actions []recovery.Action `json:"actions"`
		}{emptyNotNull(actions)})
	}
	lines := make([]string, len(actions))
	for i, act := range actions {
		lines[i] = leaseapi.Printable(act.Message)
	}
	return a.printLines(lines)
}
