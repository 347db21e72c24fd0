package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/leaseapi"
)

// poolTable is what people see: the pools, then the leases that are held.
func poolTable(pools []leaseapi.Pool) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
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
		if p.LockDelayed > 0 { // held by nobody, but in use
			next = strings.TrimPrefix(next+", ", "-, ") + strconv.Itoa(p.LockDelayed) + " with a lock delay"
		}
		fmt.Fprintf(w, "%s\t%d/%d\t%d\t%s\t%s\n", leaseapi.Printable(p.Type), p.InUse, p.Capacity, p.Waiting, oldest, next)
	}
	w.Flush()
	section(&text, w, "LEASE\tTYPE\tHELD FOR\tENDS IN\tOWNER", leaseRows(pools))
	section(&text, w, "PLACE\tTYPE\tWAITS FOR\tCOUNT\tREASON\tOWNER\tREQUEST", waiterRows(pools))
	return text.String()
}

// section adds rows with a heading, if there are any.
func section(text *strings.Builder, w *tabwriter.Writer, heading string, rows []string) {
	if len(rows) == 0 {
		return
	}
	text.WriteByte('\n')
	fmt.Fprintln(w, heading)
	for _, row := range rows {
		fmt.Fprintln(w, row)
	}
	w.Flush()
}

func leaseRows(pools []leaseapi.Pool) (rows []string) {
	for _, p := range pools {
		for _, l := range p.Leases {
			rows = append(rows, row(l.Name, p.Type, age(l.Age), endsIn(l), ownerOf(l.Owner, l.Token)))
		}
	}
	return rows
}

func waiterRows(pools []leaseapi.Pool) (rows []string) {
	for _, p := range pools {
		for _, w := range p.Waiters {
			rows = append(rows, row(strconv.Itoa(w.Place), p.Type, age(w.Age), strconv.Itoa(w.Count), reasonOf(w), ownerOf(w.Owner, w.Token), cmp.Or(w.RequestID, "-")))
		}
		if more := p.Waiting - len(p.Waiters); more > 0 && len(p.Waiters) > 0 {
			rows = append(rows, row("…", p.Type, fmt.Sprintf("and %d more", more)))
		}
	}
	return rows
}

func row(columns ...string) string {
	for i, c := range columns {
		columns[i] = leaseapi.Printable(c)
	}
	return strings.Join(columns, "\t")
}

// ownerOf names a holder or waiter, with the token that vouches for the name.
func ownerOf(owner, token string) string {
	if token != "" {
		owner = strings.TrimSpace(owner + " (token " + token + ")")
	}
	return cmp.Or(owner, "-")
}

func reasonOf(w leaseapi.Waiter) string {
	if w.Away {
		return strings.TrimSpace(w.Reason + " (away)")
	}
	return cmp.Or(w.Reason, "-")
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
