package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.owner = ifTyped(cmd.Flags().Lookup("owner"), a.owner)
			return a.acquire(cmd.Context(), o)
		},
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
same handle. It asks the same proxy for the same as before, for the same time and
owner, unless flags say otherwise, and says what differs; the old lease is given
back to its own proxy in any case. Meanwhile the handle always has the old lease or the new request, so that no other
process takes the handle for free.

If the handle does not exist, as after a release, reacquire is an acquire, and
needs --type. Without it a dry run, or with --optional, goes on without a lease.`,
		Example: `  leasectl reacquire --handle "$handle" --type install`,
		Args:    noArgsBut("handle"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.handle == "" {
				return usagef("no --handle: name the handle whose lease is to be replaced")
			}
			o.owner = ifTyped(cmd.Flags().Lookup("owner"), a.owner)
			return a.reacquire(cmd.Context(), o, func(flag string) bool { return typed(cmd.Flags().Lookup(flag)) })
		},
	}
	o.bind(cmd.Flags())
	o.bindOvercommit(cmd.Flags())
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
// was typed. It takes the same lease anew; a flag that was typed has precedence.
func (a *app) reacquire(ctx context.Context, o *acquireOptions, typed func(flag string) bool) error {
	handle, err := holder.OpenHandle(o.handle)
	if err != nil {
		return err
	}
	proxy := a.proxy.url
	record, err := handle.Read()
	switch {
	case err == nil:
		a.holder.NoticeKeeper(handle, record)
		o.repeat(record, typed)
		a.repeatTerms(o, record, typed)
		if proxy, err = a.holder.ProxyOf(record); err != nil {
			return err
		}
	case o.Type == "" && !errors.Is(err, fs.ErrNotExist):
		return err // rather than an error about the missing --type
	default: // no handle: an earlier acquire may have gone on without a lease
		o.typeless = proxy == "" || o.optional
	}
	return a.acquireInto(ctx, o, handle, proxy, &record)
}

// repeat takes type, count, items, other types, key and its mode, or the name, priority and overcommit from the
// record of an earlier request, unless flags give them.
// A name is one of its type, and has neither count nor key nor other types; with another
// type the other types are not repeated.
func (o *takeOptions) repeat(r holder.Record, typed func(flag string) bool) {
	sameType := o.Type == "" || o.Type == r.Type
	if o.Also == nil && o.Name == "" && sameType {
		o.Also = r.Also
	}
	if o.Key == "" && o.Count <= 1 && o.Items == nil && o.Also == nil && !o.Overcommit && sameType {
		o.Name = cmp.Or(o.Name, r.Name)
	}
	o.Type = cmp.Or(o.Type, r.Type)
	if !typed("priority") {
		o.Priority = r.Priority
	}
	if o.Name != "" {
		return
	}
	if !typed("overcommit") && o.Also == nil {
		o.Overcommit = r.Overcommit
	}
	if o.Count == 0 && o.Items == nil {
		o.Count, o.Items = r.Count, r.Items
	}
	o.Key = cmp.Or(o.Key, r.Key)
	o.KeyMode = cmp.Or(o.KeyMode, r.KeyMode)
}

// repeatTerms takes the list, owner, times and owner process from the record of an earlier request, unless flags
// that were typed give them. The owner is not a stranger's. Without the owner process nobody would renew the lease
// for the TTL that it had.
func (a *app) repeatTerms(o *acquireOptions, r holder.Record, typed func(flag string) bool) {
	if list := a.holder.ListOf(r); list != "" && !typed("scope") {
		o.scope, o.list = "step", list
	}
	if o.owner == "" && a.holder.Dialer.Sealed(r) {
		o.owner = r.Terms.Owner
	}
	if !typed("release-after") {
		o.releaseAfter = cmp.Or(time.Duration(r.Terms.ReleaseAfter), o.releaseAfter)
	}
	if r.Terms.OwnerPID != 0 && !typed("owner-pid") {
		if pid := a.holder.OwnerProcess(r); pid != 0 {
			o.ownerPID = pid
		} else if o.ownerPID == 0 {
			a.Failf("the new lease has no owner process: whether process %d is still that of the old one is not known: give --owner-pid", r.Terms.OwnerPID)
			return
		}
	}
	if !typed("ttl") {
		o.ttl = cmp.Or(time.Duration(r.Terms.TTL), o.ttl)
	}
}

// anew are the parts of a lease, by the flags that say them, as reacquire compares them with those before.
var anew = []struct {
	flag string
	of   func(holder.Record) string
}{
	{"proxy", func(r holder.Record) string { return proxyclient.Redacted(r.Proxy) }},
	{"type", func(r holder.Record) string { return r.Type }},
	{"also", func(r holder.Record) string {
		var also []string
		for _, other := range r.Also {
			also = append(also, other.String())
		}
		return strings.Join(also, ", ")
	}},
	{"count", func(r holder.Record) string {
		if r.Units > 0 {
			return strconv.Itoa(r.Units)
		}
		return strconv.Itoa(max(1, len(r.Leases)))
	}},
	{"key", func(r holder.Record) string { return leaseapi.KeyWords(r.Key, r.KeyMode) }},
	{"name", func(r holder.Record) string { return r.Name }},
	{"priority", func(r holder.Record) string { return orNone(r.Priority) }},
	{"ttl", func(r holder.Record) string { return orNone(leaseapi.Duration(r.TTL)) }},
	{"release-after", func(r holder.Record) string { return orNone(r.Terms.ReleaseAfter) }},
	{"owner", func(r holder.Record) string { return r.Owner }},
	{"owner-pid", func(r holder.Record) string { return orNone(r.Terms.OwnerPID) }},
	{"scope", func(r holder.Record) string { return r.SharedList }},
}

// orNone formats a number; "" if it is zero.
func orNone[T int | leaseapi.Duration](n T) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// changes says what of the lease of a handle is not as before; "" is nothing, or nothing is known.
func changes(before, now holder.Record) string {
	if len(before.Leases) == 0 || before.Bare() {
		return ""
	}
	var changed []string
	for _, part := range anew {
		if was, is := part.of(before), part.of(now); was != is {
			changed = append(changed, fmt.Sprintf("%s %s, was %s", part.flag, cmp.Or(is, "none"), cmp.Or(was, "none")))
		}
	}
	if !before.ReleaseAt.IsZero() && now.ReleaseAt.IsZero() {
		changed = append(changed, "the late release of "+before.ReleaseAt.Local().Format(time.DateTime)+" is cancelled")
	}
	return strings.Join(changed, "; ")
}

// acquireInto takes a lease into a handle. before is what the handle had, if that may be replaced; else nil.
func (a *app) acquireInto(ctx context.Context, o *acquireOptions, handle holder.Handle, proxy string, before *holder.Record) error {
	terms := holder.Terms{TTL: leaseapi.Duration(o.ttl), ReleaseAfter: leaseapi.Duration(o.releaseAfter), Owner: o.owner, OwnerPID: o.ownerPID}
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
	ctx, stop := whileParentLives(ctx)
	defer stop()
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
	request.Proxy, request.Terms, request.Outlives = proxy, terms, true
	if before != nil {
		request.Replaces = holder.Anything
	}
	goesOn := func(err error) bool { return o.optional && holder.Denied(ctx, err) }
	const without = "going on without a lease: %s"
	lease, err := a.holder.Acquire(ctx, request)
	if err != nil && goesOn(err) {
		a.Failf(without, holder.Describe(err))
		return a.printHandle(o, handle, nil)
	} else if err != nil {
		return err
	}
	printed := false
	err = lease.HandOver(ctx, holder.HandOver{ReleaseAfter: o.releaseAfter, OwnerPID: o.ownerPID}, func() error {
		err := a.printHandle(o, handle, lease.Names())
		printed = err == nil
		return err
	})
	if err != nil && printed && goesOn(err) {
		a.Failf(without, holder.Describe(err))
		return nil
	} else if err != nil {
		return err
	}
	a.Notef("acquired %s for %s%s", strings.Join(lease.Names(), ", "), lease.Owner(), o.until(lease))
	if before != nil {
		a.sayChanges(*before, handle)
	}
	return nil
}

// until says when a lease ends that nobody renews.
func (o *acquireOptions) until(lease *holder.Lease) string {
	end, now := lease.Deadline(), time.Now()
	if end.IsZero() || o.ownerPID != 0 {
		return ""
	}
	left := proxyclient.Until(end)
	if o.releaseAfter > 0 {
		left = min(left, o.releaseAfter)
	}
	return ", until " + clockTime(now.Add(left), now)
}

// sayChanges says what of the lease of a handle is not as before.
func (a *app) sayChanges(before holder.Record, handle holder.Handle) {
	now, err := handle.Read() // with what the grant and the hand-over wrote
	if err != nil {
		return // it was released meanwhile
	}
	if text := changes(before, now); text != "" {
		a.Notef("unlike the lease before: %s", text)
	}
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
