package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

type renewOptions struct {
	handle string
	ttl    time.Duration
}

func newRenewCommand(a *app) *cobra.Command {
	o := new(renewOptions)
	cmd := &cobra.Command{
		Use:   "renew --handle HANDLE",
		Short: "renew a lease once",
		Long: `Renew starts the TTL of a handle's lease anew, once. It fails if the lease is
lost. leasectl exec renews by itself.`,
		Example: `  leasectl renew --handle "$handle" --ttl 30m`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.renew(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.handle, "handle", "", "the handle that acquire printed")
	cmd.Flags().Var(durationValue(&o.ttl, 0, minTTL, maxTime), "ttl", "how long the lease lasts from now on (default: as before)")
	return cmd
}

func (a *app) renew(ctx context.Context, o *renewOptions) error {
	if o.handle == "" {
		return usagef("no --handle: name the handle whose lease is to be renewed")
	}
	handle, err := openHandle(o.handle)
	if err != nil {
		return err
	}
	record, err := handle.Read()
	if errors.Is(err, fs.ErrNotExist) {
		if a.proxy.unset() {
			a.notef("no proxy is set (--proxy or $%s): dry run: nothing is renewed", proxyVariable)
			return nil
		}
		return fmt.Errorf("handle %s is gone: there is no lease to renew: acquire one", handle.Path())
	}
	if err != nil {
		return err
	}
	a.noticeKeeper(handle, record)
	proxy := a.proxyOf(record)
	if proxy == "" {
		return usagef("no --proxy: the handle does not say which proxy it is from")
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	client, err := a.dial(ctx, proxy)
	if err != nil {
		return err
	}
	renewal, err := client.Renew(ctx, wireLeases(record.Leases), o.ttl)
	if err != nil {
		return fmt.Errorf("renew %s: %w", strings.Join(record.Names(), ", "), err)
	}
	a.notef("renewed %s for %s", strings.Join(record.Names(), ", "), shortDuration(renewal.TTL))
	return nil
}
