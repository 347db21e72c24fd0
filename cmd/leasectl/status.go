package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

type statusOptions struct {
	handle string
}

func newStatusCommand(a *app) *cobra.Command {
	o := new(statusOptions)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show who holds what, who waits, and since when",
		Long: `Status prints the pools of the proxy with their leases, or with --handle what
one handle holds and what the proxy knows of it.`,
		Example: `  leasectl status --proxy http://127.0.0.1:8370 --output json`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.statusOf(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.handle, "handle", "", "a handle that acquire printed")
	return cmd
}

const (
	// statusTimeout bounds what somebody waits for at a terminal, the start of
	// a local proxy included.
	statusTimeout = 10 * time.Second
	// poolsTimeout bounds the question for the pools itself: a proxy answers it
	// in milliseconds, and who asks wants to know soon that there is none.
	poolsTimeout = 3 * time.Second
)

func (a *app) statusOf(ctx context.Context, o *statusOptions) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if o.handle != "" {
		return a.handleStatus(ctx, o.handle)
	}
	if a.proxy.unset() {
		a.dryRun("there is nothing to show")
		return nil
	}
	pools, err := a.askPools(ctx, a.proxy.url)
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.printJSON(leaseapi.PoolsReply{Pools: pools})
	}
	return a.print("%s", poolTable(pools))
}

func (a *app) askPools(ctx context.Context, proxy string) ([]leaseapi.Pool, error) {
	client, err := a.holder.Dial(ctx, proxy)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, poolsTimeout)
	defer cancel()
	pools, err := client.Pools(ctx)
	if err != nil && !errors.Is(err, proxyclient.ErrUnreachable) { // which names it
		return nil, fmt.Errorf("%s: %w", proxy, err)
	}
	return pools, err
}

// poolTable is what people see: the pools, then the leases that are held.
func poolTable(pools []leaseapi.Pool) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	held := 0
	fmt.Fprintln(w, "TYPE\tIN USE\tWAITING\tOLDEST WAIT\tNEXT GRANT")
	for _, p := range pools {
		oldest := "-"
		if p.Waiting > 0 {
			oldest = age(p.OldestWaiting)
		}
		next := "-"
		if p.NextGrantIn > 0 { // the pace holds it back
			next = "in " + age(p.NextGrantIn)
		}
		fmt.Fprintf(w, "%s\t%d/%d\t%d\t%s\t%s\n", leaseapi.Printable(p.Type), p.InUse, p.Capacity, p.Waiting, oldest, next)
		held += len(p.Leases)
	}
	w.Flush()
	if held == 0 {
		return text.String()
	}
	text.WriteByte('\n')
	fmt.Fprintln(w, "LEASE\tTYPE\tHELD FOR\tENDS IN\tOWNER")
	for _, p := range pools {
		for _, l := range p.Leases {
			owner := leaseapi.Printable(l.Owner)
			if l.Token != "" {
				owner = strings.TrimSpace(owner + " (token " + leaseapi.Printable(l.Token) + ")")
			}
			if owner == "" {
				owner = "-"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", leaseapi.Printable(l.Name), leaseapi.Printable(p.Type), age(l.Age), endsIn(l), owner)
		}
	}
	w.Flush()
	return text.String()
}

// age prints a duration for people: to the second, or finer if it is short.
func age(d leaseapi.Duration) string {
	if t := time.Duration(d); t < time.Second {
		return t.Round(time.Millisecond).String()
	}
	return leaseapi.Duration(time.Duration(d).Round(time.Second)).String()
}

func endsIn(l leaseapi.PoolLease) string {
	switch {
	case l.Broken != "":
		return age(l.ExpiresIn) + " (broken: " + leaseapi.Printable(l.Broken) + ")"
	case !l.ReleaseAt.IsZero():
		return age(l.ExpiresIn) + " (release)"
	case l.Provisional:
		return age(l.ExpiresIn) + " (not confirmed yet)"
	}
	return age(l.ExpiresIn) + " unless renewed"
}

// handleStatus shows what a handle holds, and what its proxy knows of that.
func (a *app) handleStatus(ctx context.Context, path string) error {
	handle, err := holder.OpenHandle(path)
	if err != nil {
		return err
	}
	record, err := handle.Read()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("handle %s does not exist: it was released, or never acquired", handle.Path())
	}
	if err != nil {
		return err
	}
	a.holder.NoticeKeeper(handle, record)
	known, failed := a.proxyKnows(ctx, record)
	// The handle's record is worth printing without the proxy too.
	if a.output == "json" {
		err = a.printJSON(struct {
			Handle string               `json:"handle"`
			Record holder.Record        `json:"record"`
			Held   []leaseapi.PoolLease `json:"held"`
		}{handle.Path(), record, emptyNotNull(known)})
	} else {
		err = a.print("%s", handleTable(handle.Path(), record, known))
	}
	return errors.Join(err, failed)
}

// proxyKnows finds the leases of a record among those that its proxy has: nil if
// it cannot tell, as one of version 1, which is no error.
func (a *app) proxyKnows(ctx context.Context, record holder.Record) ([]leaseapi.PoolLease, error) {
	proxy := a.holder.ProxyOf(record)
	if proxy == "" {
		return nil, nil
	}
	pools, err := a.askPools(ctx, proxy)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	known := []leaseapi.PoolLease{}
	for _, p := range pools {
		for _, l := range p.Leases {
			if holder.Holds(record, l.Lease) {
				known = append(known, l)
			}
		}
	}
	return known, nil
}

func handleTable(path string, r holder.Record, known []leaseapi.PoolLease) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, leaseapi.Printable(value))
		}
	}
	row("handle", path)
	row("state", string(r.State))
	row("type", r.Type)
	row("names", strings.Join(r.NamesInFile(), ", "))
	row("owner", r.Owner)
	row("proxy", r.Proxy)
	if !r.AcquiredAt.IsZero() {
		row("acquired", r.AcquiredAt.Format(time.RFC3339))
	}
	for _, l := range known {
		row("ends", fmt.Sprintf("%s in %s", l.Name, endsIn(l)))
	}
	if known != nil && len(known) < len(r.Leases) && r.State == holder.StateHeld {
		row("ends", fmt.Sprintf("%d of %d leases are not known to the proxy as this handle's", len(r.Leases)-len(known), len(r.Leases)))
	}
	w.Flush()
	return text.String()
}
