package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// poolSections returns what status shows of pools: themselves, then pauses, names, reservations, leases, waiters, peaks and limits.
func poolSections(pools []leaseapi.Pool) []section {
	extras := extraColumns(pools)
	return []section{
		poolTable(pools),
		{"PAUSED\tFOR\tREASON", pausedRows(pools)},
		{"NAME\tTYPE\tSTATE", nameRows(pools)},
		{"RESERVED\tTYPE\tFOR\tENDS\tBY\tREASON", reservedRows(pools)},
		{"LEASE\tTYPE\t" + extras.lease("UNITS", "KEY") + "HELD FOR\tENDS IN\tOWNER", leaseRows(pools, extras)},
		{"PLACE\tTYPE\t" + extras.waiter("PRIORITY", "KEY") + "WAITS FOR\tCOUNT\tREASON\tOWNER\tREQUEST", waiterRows(pools, extras)},
		{"PEAKS OF\tUNIT\tLEASES\tASKED P50\tP95\tMAX\tUSED P50\tP95\tMAX", peakRows(pools)},
		{"LIMIT OF\tLIMIT\tWALL\tMOVED\tWHEN\tREPORT OF\tDETAIL", limitRows(pools)},
		{"REPORTS OF\tLIMIT\tOK\tTHROTTLED", tallyRows(pools)},
	}
}

// shortSections returns what status --short shows of pools: no lease and no waiter.
func shortSections(pools []leaseapi.Pool) []section {
	return []section{poolTable(pools), {"PAUSED\tFOR\tREASON", pausedRows(pools)}}
}

// poolTable has a row for each pool.
func poolTable(pools []leaseapi.Pool) section {
	var rows []string
	for _, p := range pools {
		oldest := "-"
		if p.Waiting > 0 {
			oldest = age(p.OldestWaiting)
		}
		next := "-"
		if p.NextGrantIn > 0 { // because of the pace
			next = "in " + age(p.NextGrantIn)
		}
		if p.Paused != "" {
			next = "when resumed"
		}
		if p.LockDelayed > 0 { // these count as in use, but nobody holds them
			next = strings.TrimPrefix(next+", ", "-, ") + strconv.Itoa(p.LockDelayed) + " with a lock delay"
			if p.LockedFor > 0 {
				next += ", over in " + age(p.LockedFor)
			}
		}
		rows = append(rows, row(p.Type, inUse(p), waiting(p), oldest, next))
	}
	return section{"TYPE\tIN USE\tWAITING\tOLDEST WAIT\tNEXT GRANT", rows}
}

// inUse returns how much of a pool is in use, of its limit, and of its capacity if that differs.
func inUse(p leaseapi.Pool) string {
	if p.Limit > 0 && p.Limit != p.Capacity {
		return fmt.Sprintf("%d/%d of %d", p.InUse, p.Limit, p.Capacity)
	}
	return fmt.Sprintf("%d/%d", p.InUse, p.Capacity)
}

// waiting returns how many requests wait in a pool's queue, and how many joined another request.
func waiting(p leaseapi.Pool) string {
	if p.Following > 0 {
		return fmt.Sprintf("%d, %d joined", p.Waiting, p.Following)
	}
	return strconv.Itoa(p.Waiting)
}

// pausedRows returns a row for each pool that an operator has paused: for how long, and why.
func pausedRows(pools []leaseapi.Pool) (rows []string) {
	for _, p := range pools {
		if p.Paused != "" {
			rows = append(rows, row(p.Type, age(p.PausedFor), p.Paused))
		}
	}
	return rows
}

// nameRows returns a row for each name that nobody has, if the pool was asked for by its type: who has the
// others is in other rows.
func nameRows(pools []leaseapi.Pool) (rows []string) {
	for _, p := range pools {
		for _, n := range p.Names {
			switch {
			case n.State == leaseapi.NameIsHeld || n.State == leaseapi.NameIsReserved:
			case n.FreeIn > 0:
				rows = append(rows, row(n.Name, p.Type, n.State+", over in "+age(n.FreeIn)))
			default:
				rows = append(rows, row(n.Name, p.Type, n.State))
			}
		}
		if more := p.Capacity - len(p.Names); more > 0 && len(p.Names) > 0 {
			rows = append(rows, row("…", p.Type, fmt.Sprintf("and %d names that are not listed", more)))
		}
	}
	return rows
}

// reservedRows returns a row for each name that a person has taken out of its pool.
func reservedRows(pools []leaseapi.Pool) (rows []string) {
	for _, p := range pools {
		for _, r := range p.Reservations {
			ends, reason := "when it is given back", r.Reason
			if r.EndsIn > 0 {
				ends = "in " + age(r.EndsIn)
			}
			if r.HeldBy != "" {
				reason += " (held still by " + r.HeldBy + ")"
			}
			rows = append(rows, row(r.Name, p.Type, age(r.Age), ends, ownerOf(r.Owner, r.Token), reason))
		}
		if more := p.Reserved - len(p.Reservations); more > 0 {
			rows = append(rows, row("…", p.Type, fmt.Sprintf("and %d more", more)))
		}
	}
	return rows
}

// columns says which of the columns are shown that only some pools need.
type columns struct{ units, leaseKeys, waiterKeys, priorities bool }

func extraColumns(pools []leaseapi.Pool) (c columns) {
	for _, p := range pools {
		c.units = c.units || p.Counted
		for _, l := range p.Leases {
			c.units = c.units || l.Units > 1 // the pool was counted at the grant
			c.leaseKeys = c.leaseKeys || l.Key != ""
		}
		for _, w := range p.Waiters {
			c.waiterKeys = c.waiterKeys || w.Key != ""
			c.priorities = c.priorities || w.Priority != 0
		}
	}
	return c
}

// lease returns the cells of the extra columns of the leases.
func (c columns) lease(units, key string) (cells string) {
	if c.units {
		cells += units + "\t"
	}
	if c.leaseKeys {
		cells += leaseapi.Printable(key) + "\t"
	}
	return cells
}

// waiter returns the cells of the extra columns of the waiters.
func (c columns) waiter(priority, key string) (cells string) {
	if c.priorities {
		cells += priority + "\t"
	}
	if c.waiterKeys {
		cells += leaseapi.Printable(key) + "\t"
	}
	return cells
}

// peakRows compares, for pools whose units are memory, the units that leases asked for with the
// units that their commands used.
func peakRows(pools []leaseapi.Pool) (rows []string) {
	for _, p := range pools {
		if p.Peaks == nil || !leaseapi.IsMemory(p.Unit) {
			continue
		}
		used := func(n int64) string { return leaseapi.InUnits(n, p.Unit) }
		asked := func(n int64) string { return strconv.FormatInt(n, 10) }
		a, u := p.Peaks.Asked, p.Peaks.Used
		rows = append(rows, row(p.Type, p.Unit, strconv.Itoa(p.Peaks.Leases),
			asked(a.P50), asked(a.P95), asked(a.Max), used(u.P50), used(u.P95), used(u.Max)))
	}
	return rows
}

func leaseRows(pools []leaseapi.Pool, extras columns) (rows []string) {
	for _, p := range pools {
		for _, l := range p.Leases {
			units := "-"
			if l.Units > 0 {
				units = strconv.Itoa(l.Units)
			}
			rows = append(rows, row(l.Name, p.Type)+"\t"+extras.lease(units, cmp.Or(leaseapi.KeyWords(l.Key, l.KeyMode), "-"))+row(age(l.Age), endsIn(l), ownerOf(l.Owner, l.Token)))
		}
	}
	return rows
}

func waiterRows(pools []leaseapi.Pool, extras columns) (rows []string) {
	for _, p := range pools {
		for _, w := range p.Waiters {
			rows = append(rows, row(strconv.Itoa(w.Place), p.Type)+"\t"+extras.waiter(strconv.Itoa(w.Priority), cmp.Or(leaseapi.KeyWords(w.Key, w.KeyMode), "-"))+row(age(w.Age), strconv.Itoa(w.Count), reasonOf(w), ownerOf(w.Owner, w.Token), cmp.Or(w.RequestID, "-")))
		}
		if more := p.Waiting + p.Following - len(p.Waiters); more > 0 && len(p.Waiters) > 0 {
			rows = append(rows, row("…", p.Type, fmt.Sprintf("and %d more", more)))
		}
	}
	return rows
}

func row(columns ...string) string {
	for i, c := range columns {
		columns[i] = leaseapi.Printable(c)
	}
	if rest, command := strings.CutPrefix(columns[0], "::"); command { // as GitHub's at the beginning of a line
		columns[0] = ": :" + rest
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

// reasonOf says why a request waits, and where the order puts it.
func reasonOf(w leaseapi.Waiter) string {
	w.Priority = 0 // which has a column of its own
	order := w.Order.Words()
	if order == "" {
		return whyOf(w)
	}
	return strings.TrimPrefix(whyOf(w)+", "+order, "-, ")
}

// whyOf says why a request waits.
func whyOf(w leaseapi.Waiter) string {
	why := w.Reason.String()
	if w.Follows != "" {
		why += " " + w.Follows
	}
	if w.Away {
		return strings.TrimSpace(why + " (away)")
	}
	return cmp.Or(why, "-")
}

// age prints a duration for people: to the second, or finer if it is short.
func age(d leaseapi.Duration) string {
	if t := time.Duration(d); t < time.Second {
		return t.Round(time.Millisecond).String()
	}
	return leaseapi.Duration(time.Duration(d).Round(time.Second)).String()
}

// endsIn says in how long a lease ends, and why.
func endsIn(l leaseapi.PoolLease) string {
	text := age(l.ExpiresIn)
	switch {
	case l.Broken != "":
		text += " (broken: " + leaseapi.Printable(l.Broken) + ")"
	case !l.ReleaseAt.IsZero():
		text += " (release)"
	case l.Provisional:
		text += " (not confirmed yet)"
	case l.Overcommit:
		text += " unless renewed (overcommit)"
	default:
		text += " unless renewed"
	}
	if l.Draining {
		text += " (draining)"
	}
	return text
}

func handleTable(path string, r holder.Record, known []leaseapi.PoolLease) string {
	var rows []string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, row(name, value))
		}
	}
	add("state", string(r.State))
	add("type", r.Type)
	var also []string
	for _, a := range r.Also {
		also = append(also, a.String())
	}
	add("also", strings.Join(also, ", "))
	add("names", strings.Join(r.NamesInFile(), ", "))
	add("name", r.Name)
	add("key", leaseapi.KeyWords(r.Key, r.KeyMode))
	if r.Units > 0 {
		add("units", strconv.Itoa(r.Units))
	}
	add("owner", r.Owner)
	add("proxy", proxyclient.Redacted(r.Proxy))
	if !r.AcquiredAt.IsZero() {
		add("acquired", r.AcquiredAt.Format(time.RFC3339))
	}
	for _, l := range known {
		add("ends", fmt.Sprintf("%s in %s", l.Name, endsIn(l)))
	}
	if known != nil && len(known) < len(r.Leases) && r.State == holder.HandleHeld {
		add("ends", fmt.Sprintf("%d of %d leases are not known to the proxy as this handle's", len(r.Leases)-len(known), len(r.Leases)))
	}
	return room{}.table(section{row("handle", path), rows})
}
