package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/holder"
)

func newAcquireCommand(a *app) *cobra.Command {
	o := new(acquireOptions)
	cmd := &cobra.Command{
		Use:   "acquire --type TYPE",
		Short: "take a lease and print its handle",
		Long: `Acquire queues for a lease, writes its handle, and prints the handle's path
and nothing else. The lease lasts until it is released, or for the pool's
default TTL. With --owner-pid a process in the background renews it as long as
the owner process lives, and releases it when that ends, however it ends.`,
		Example: `  handle=$(leasectl acquire --proxy local --pool install=2 --type install)
  trap 'leasectl release --handle "$handle"' EXIT`,
		Args: noArgsBut("type"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.acquire(cmd.Context(), o) },
	}
	o.bind(cmd.Flags())
	o.bindOvercommit(cmd.Flags())
	cmd.Flags().BoolVar(&o.noNewline, "no-newline", false, "")
	cmd.Flags().Lookup("no-newline").Hidden = true // for client.sh, whose callers expect no newline
	require(cmd.Flags(), "type")
	return cmd
}

func newReacquireCommand(a *app) *cobra.Command {
	o := new(acquireOptions)
	cmd := &cobra.Command{
		Use:   "reacquire --handle HANDLE",
		Short: "give a lease back and take a new one into the same handle",
		Long: `Reacquire replaces the lease of a handle: it cancels a late release of the old
lease, gives the old lease back, queues for a new one, and writes that into the
same handle. It asks for the same types, counts and key, of the same proxy, unless
flags say otherwise; the old lease is given back to its own proxy in any case.
Meanwhile the handle always has the old lease or the new request, so that no other
process takes the handle for free.

If the handle does not exist, as after a release, reacquire is an acquire, and
needs --type. Without it a dry run, or with --optional, goes on without a lease.`,
		Example: `  leasectl reacquire --handle "$handle" --type install`,
		Args:    noArgsBut("handle"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.handle == "" {
				return usagef("no --handle: name the handle whose lease is to be replaced")
			}
			return a.reacquire(cmd.Context(), o)
		},
	}
	o.bind(cmd.Flags())
	cmd.Flags().Lookup("type").Usage += " (default: the handle's)"
	cmd.Flags().Lookup("handle").Usage = "the handle whose lease is replaced"
	require(cmd.Flags(), "handle")
	return cmd
}

// acquireOptions are the flags of acquire and reacquire, whose lease outlives leasectl.
type acquireOptions struct {
	takeOptions
	ownerPID  int  // process with whose end the lease ends; 0: none
	noNewline bool // print no newline after the handle
}

func (o *acquireOptions) bind(flags *pflag.FlagSet) {
	o.takeOptions.bind(flags)
	flags.Lookup("ttl").Usage = "how long the lease lasts after its last renewal (default: the pool's; 5m with --owner-pid)"
	bindOwnerPID(flags, &o.ownerPID, "keep the lease as long as this process lives, such as $$, and release it when it ends")
}

// check refuses invalid flags. With --owner-pid it also sets the default TTL.
func (o *acquireOptions) check() error {
	if err := o.takeOptions.check(); err != nil || o.ownerPID == 0 {
		return err
	}
	if err := checkOwnerPID(o.ownerPID); err != nil {
		return err
	}
	if o.ttl == 0 {
		o.ttl = defaultExecTTL // a keeper renews the lease, as exec does
	}
	return checkOwnerLives(o.ownerPID)
}

// acquire takes a lease for a script, and prints the path of the handle.
func (a *app) acquire(ctx context.Context, o *acquireOptions) error {
	handle, err := a.holder.NewHandle(o.handle)
	if err != nil {
		return err
	}
	return a.acquireInto(ctx, o, handle, a.proxy.url, nil)
}

// reacquire replaces the lease of a handle with a new one, from the same proxy unless --proxy
// was typed. It asks for the old lease's type, count, key or name; each flag has precedence.
func (a *app) reacquire(ctx context.Context, o *acquireOptions) error {
	handle, err := holder.OpenHandle(o.handle)
	if err != nil {
		return err
	}
	proxy := a.proxy.url
	record, err := handle.Read()
	switch {
	case err == nil:
		a.holder.NoticeKeeper(handle, record)
		o.repeat(record)
		if proxy, err = a.holder.ProxyOf(record); err != nil {
			return err
		}
	case o.Type == "" && !errors.Is(err, fs.ErrNotExist):
		return err // rather than an error about the missing --type
	default: // no handle: an earlier acquire may have gone on without a lease
		o.typeless = proxy == "" || o.optional
	}
	return a.acquireInto(ctx, o, handle, proxy, holder.Anything)
}

// repeat takes type, count, items, other types, key and its mode, or the name, from the record of an
// earlier request, unless flags give them; not what was right for that one only, such as its priority.
// A name is one of its type, and has neither count nor key nor other types; with another
// type the other types are not repeated.
func (o *takeOptions) repeat(r holder.Record) {
	sameType := o.Type == "" || o.Type == r.Type
	if o.Also == nil && o.Name == "" && sameType {
		o.Also = r.Also
	}
	if o.Key == "" && o.Count <= 1 && !o.HasItems && o.Also == nil && !o.Overcommit && sameType {
		o.Name = cmp.Or(o.Name, r.Name)
	}
	o.Type = cmp.Or(o.Type, r.Type)
	if o.Name != "" {
		return
	}
	if o.Count == 0 && !o.HasItems {
		o.Count, o.Items, o.HasItems = r.Count, r.Items, r.HasItems
	}
	o.Key = cmp.Or(o.Key, r.Key)
	o.KeyMode = cmp.Or(o.KeyMode, r.KeyMode)
}

func (a *app) acquireInto(ctx context.Context, o *acquireOptions, handle holder.Handle, proxy string, replaces func(holder.Record) bool) error {
	if err := o.check(); err != nil {
		return err
	}
	if proxy == "" {
		if err := a.dryRun("no lease%s is taken", ofType(o.Type)); err != nil {
			return err
		}
		return a.printHandle(o, handle, nil)
	}
	if o.Type == "" {
		a.Failf("going on without a lease: handle %s does not exist, and no --type says which lease to take", handle.Path())
		return a.printHandle(o, handle, nil)
	}
	if o.ownerPID != 0 {
		if err := a.holder.CanKeep(); err != nil {
			return err
		}
		watched, stop, err := whileOwnerLives(ctx, o.ownerPID)
		if err != nil {
			return err
		}
		defer stop()
		ctx = watched
	}
	request, err := o.request(handle)
	if err != nil {
		return err
	}
	request.Proxy, request.Replaces, request.Outlives = proxy, replaces, true
	lease, err := a.holder.Acquire(ctx, request)
	if err != nil {
		if !o.optional || !holder.Denied(ctx, err) {
			return err
		}
		a.Failf("going on without a lease: %s", holder.Describe(err))
		return a.printHandle(o, handle, nil)
	}
	err = lease.HandOver(ctx, holder.HandOver{ReleaseAfter: o.releaseAfter, OwnerPID: o.ownerPID}, func() error {
		return a.printHandle(o, handle, lease.Names())
	})
	if err == nil {
		a.Notef("acquired %s for %s", strings.Join(lease.Names(), ", "), lease.Owner())
	}
	return err
}

// ofType returns typ for a message; "" if there is none.
func ofType(typ string) string {
	if typ == "" {
		return ""
	}
	return fmt.Sprintf(" of type %q", typ)
}

func (a *app) printHandle(o *acquireOptions, h holder.Handle, names []string) error {
	if a.output == "json" {
		return a.printJSON(struct {
			Handle string   `json:"handle"`
			Names  []string `json:"names"`
		}{h.Path(), emptyNotNull(names)})
	}
	if o.noNewline {
		return a.print("%s", h.Path())
	}
	return a.print("%s\n", h.Path())
}
