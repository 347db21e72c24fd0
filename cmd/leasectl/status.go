package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/dial"
	"github.com/leasectl/leasectl/internal/holder/shared"
	"github.com/leasectl/leasectl/leaseapi"
)

type statusOptions struct {
	handle      string
	whyNoHandle string // why handle is empty, if that is not a mistake; else ""
	typ         string // only this pool; "" is all
	watch       bool
	short       bool
	shared      string // only this shared lease; "" is all
}

func newStatusCommand(a *app) *cobra.Command {
	o := new(statusOptions)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show who holds what, who waits, and since when",
		Long: `Status prints the pools of the proxy with their leases, or with --handle what
one handle holds and what the proxy knows of it. Leases that commands of this
machine share (exec --shared) are listed with their rounds and uses, and with
--shared the service of each round, too, without asking the proxy. With --watch
status goes on until it is interrupted: on a terminal it shows the table anew,
elsewhere it prints a line for each change, or with --output json an object with
the pool, leader or shared lease after each change. What is too long for a
terminal is cut; the table of --watch begins with the pools that have waiters,
and says how much more there is. In a file or a pipe everything is whole.`,
		Example: `  leasectl status --type install --watch
  leasectl status --proxy http://127.0.0.1:8370 --output json`,
		Args: noArgsBut("type"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.whyNoHandle = whyNoHandle(cmd)
			return a.statusOf(cmd.Context(), o)
		},
	}
	cmd.Flags().Var(handleValue(&o.handle), "handle", "a handle that acquire printed")
	cmd.Flags().Var(typeValue(&o.typ), "type", "show this pool only")
	cmd.Flags().Var(sharedValue(&o.shared), "shared", "show this shared lease of this machine, and its service")
	cmd.Flags().BoolVar(&o.watch, "watch", false, "go on, and show each change")
	cmd.Flags().BoolVar(&o.short, "short", false, "show the pools only, without who holds and who waits")
	return cmd
}

func (a *app) statusOf(ctx context.Context, o *statusOptions) error {
	if (o.handle != "" || o.whyNoHandle != "") && (o.typ != "" || o.watch) {
		return usagef("--handle goes with neither --type nor --watch")
	}
	if o.shared != "" && (o.handle != "" || o.whyNoHandle != "" || o.watch) {
		return usagef("--shared goes with none of --handle, --watch")
	}
	if o.short && (o.handle != "" || o.whyNoHandle != "" || o.shared != "" || a.output == "json") {
		return usagef("--short goes with none of --handle, --shared, --output json")
	}
	if o.shared != "" {
		return a.sharedStatus(o.shared, o.typ)
	}
	if o.whyNoHandle != "" {
		a.Notef("%s: there is nothing to show", o.whyNoHandle)
		return nil
	}
	if a.proxy.unset() && o.handle == "" {
		return usagef(noProxy + ": there is nothing to show")
	}
	if o.watch {
		return a.watchStatus(ctx, o)
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if o.handle != "" {
		return a.handleStatus(ctx, o.handle)
	}
	all, err := a.askPools(ctx, a.proxy.url, o.typ)
	if err != nil {
		return err
	}
	shared, err := a.sharedRounds(o.typ)
	if err != nil {
		a.Failf("%v", err) // the rest of the status is shown all the same
	}
	overview := overview{all, shared}
	if a.output == "json" {
		return a.printJSON(overview)
	}
	return a.print("%s", overview.text(time.Now(), roomOf(a.stdout).wide(), o.short))
}

// overview is all that status shows, once or with --watch.
type overview struct {
	leaseapi.PoolsReply
	Shared []shared.Round `json:"shared,omitempty"`
}

// text formats an overview for people, so that it fits into r. If it is short, it has the pools alone.
func (o overview) text(now time.Time, r room, short bool) string {
	if r.height > 0 { // not all pools may fit
		o.Pools = slices.SortedStableFunc(slices.Values(o.Pools), func(a, b leaseapi.Pool) int { return urgency(b) - urgency(a) })
	}
	sections := shortSections(o.Pools)
	if !short {
		sections = append(poolSections(o.Pools), sharedTable(o.Shared))
	}
	leader := r.cutLines(leaderLine(o.Leader, now))
	return leader + r.without(strings.Count(leader, "\n")).format(sections)
}

// urgency says how much a pool needs somebody to look at it.
func urgency(p leaseapi.Pool) int {
	switch {
	case p.Waiting > 0:
		return 3
	case p.Paused != "":
		return 2
	case p.InUse > 0:
		return 1
	}
	return 0
}

// leaderLine says which of several servers leads; "" if there is only one.
func leaderLine(l *leaseapi.Leader, now time.Time) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("led by %s for %s, %d standing by\n\n", leaderName(l), age(leaseapi.Duration(max(0, now.Sub(l.Since)))), l.Standby)
}

// leaderName says where clients reach the leader.
func leaderName(l *leaseapi.Leader) string { return cmp.Or(l.URL, "a server without --advertise") }

// handleStatus prints what a handle holds, and what its proxy knows about these leases.
func (a *app) handleStatus(ctx context.Context, path string) error {
	handle, err := holder.OpenHandle(path)
	if err != nil {
		return err
	}
	record, err := handle.Read()
	if errors.Is(err, fs.ErrNotExist) {
		if a.proxy.unset() {
			return a.dryRun("handle %s does not exist: there is nothing to show", handle.Path())
		}
		a.Notef(noSuchHandle+": leasectl status lists what is held", handle.Path())
		return nil
	}
	if err != nil {
		return err
	}
	a.holder.NoticeKeeper(handle, record)
	known, failed := a.proxyKnows(ctx, record)
	if known != nil && len(known) < len(record.Leases) {
		if why := a.holder.Hidden(ctx, record); why != "" {
			a.Notef("%s", why)
		}
	}
	// Print the handle's record even if the proxy does not answer.
	if a.output == "json" {
		err = a.printJSON(struct {
			Handle string               `json:"handle"`
			Record holder.Record        `json:"record"`
			Held   []leaseapi.PoolLease `json:"held"`
		}{handle.Path(), dial.Redacted(record), emptyNotNull(known)})
	} else {
		err = a.print("%s", handleTable(handle.Path(), record, known))
	}
	return errors.Join(err, failed)
}

// proxyKnows returns the leases of a record that its proxy lists. It returns nil without an error
// if no proxy is known, or if the proxy lists no leases, as one of version 1.
func (a *app) proxyKnows(ctx context.Context, record holder.Record) ([]leaseapi.PoolLease, error) {
	proxy, err := a.holder.ProxyOf(record)
	if err != nil || proxy == "" {
		return nil, err
	}
	all, err := a.askPools(ctx, proxy, "")
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	known := []leaseapi.PoolLease{}
	for _, p := range all.Pools {
		for _, l := range p.Leases {
			if record.Holds(l.Lease) {
				known = append(known, l)
			}
		}
	}
	return known, nil
}
