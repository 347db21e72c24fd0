package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/leaseapi"
)

type renewOptions struct {
	handle   string
	ttl      time.Duration
	optional bool
}

func newRenewCommand(a *app) *cobra.Command {
	o := new(renewOptions)
	cmd := &cobra.Command{
		Use:   "renew --handle HANDLE",
		Short: "renew a lease once",
		Long: `Renew starts the TTL of a handle's lease anew, once. It fails if the lease is
lost or released. leasectl exec renews by itself.`,
		Example: `  leasectl renew --handle "$handle" --ttl 30m`,
		Args:    noArgsBut("handle"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if why := whyNoHandle(cmd); why != "" {
				a.Notef("%s: nothing is renewed", why)
				return nil
			}
			return a.renew(cmd.Context(), o)
		},
	}
	cmd.Flags().Var(handleValue(&o.handle), "handle", "the handle that acquire printed")
	cmd.Flags().Var(durationValue(&o.ttl, 0, minTTL, maxTime), "ttl", "how long the lease lasts from now on (default: as before)")
	bindWithoutLease(cmd.Flags(), &o.optional)
	require(cmd.Flags(), "handle")
	return cmd
}

func (a *app) renew(ctx context.Context, o *renewOptions) error {
	if o.handle == "" {
		return noHandle("whose lease is to be renewed")
	}
	handle, err := holder.OpenHandle(o.handle)
	if err != nil {
		return err
	}
	record, err := handle.Read()
	switch {
	case err == nil:
		a.holder.NoticeKeeper(handle, record)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	default:
		return a.withoutLease(handle, o.optional, "nothing is renewed")
	}
	ttl, err := a.holder.Renew(ctx, handle, record, o.ttl)
	if err != nil {
		return err
	}
	if ttl < o.ttl {
		a.Notef("the proxy renews for %s, not for the %s that were asked for: it allows no more for type %s", leaseapi.Duration(ttl), leaseapi.Duration(o.ttl), leaseapi.AnyOf(record.Type, record.Also))
	}
	still := ""
	if at := record.ReleaseAt; !at.IsZero() && time.Until(at) < ttl {
		still = "; it is released at " + at.Local().Format(time.DateTime) + " all the same"
	}
	a.Notef("renewed %s for %s%s", strings.Join(record.Names(), ", "), leaseapi.Duration(ttl), still)
	return nil
}
