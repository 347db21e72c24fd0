package main

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/leasectl/leasectl/leaseapi"
)

// statusText is what people see of pools.
func statusText(pools []leaseapi.Pool) string { return poolTable(pools) + limitTable(pools) }

// limitTable is what people see of limits that move, and of what was reported.
func limitTable(pools []leaseapi.Pool) string {
	return section("LIMIT OF\tLIMIT\tWALL\tMOVED\tWHEN\tREPORT OF\tDETAIL", limitRows(pools)) +
		section("REPORTS OF\tLIMIT\tOK\tTHROTTLED", tallyRows(pools))
}

// limitRows are the limits that move with what holders report: at which limit the
// pool was last cut, and which report moved it last.
func limitRows(pools []leaseapi.Pool) (rows []string) {
	for _, p := range pools {
		if !p.Adapt {
			continue
		}
		wall, moved, when, owner, detail := "-", "-", "-", "-", "-"
		if p.Wall > 0 {
			wall = strconv.Itoa(p.Wall)
		}
		if m := p.Moved; m != nil {
			moved, when = fmt.Sprintf("from %d to %d", m.From, m.To), age(m.Age)+" ago"
			owner, detail = ownerOf(m.Owner, m.Token), cmp.Or(m.Detail, "-")
		}
		rows = append(rows, row(p.Type, strconv.Itoa(cmp.Or(p.Limit, p.Capacity)), wall, moved, when, owner, detail))
	}
	return rows
}

// tallyRows are, for pools whose limit is fixed, how many leases were reported to have
// ended ok and to have been throttled at which limit: what an operator needs to
// choose one.
func tallyRows(pools []leaseapi.Pool) (rows []string) {
	for _, p := range pools {
		if p.Adapt {
			continue
		}
		for _, t := range p.Tally {
			rows = append(rows, row(p.Type, strconv.Itoa(t.Limit), strconv.Itoa(t.OK), strconv.Itoa(t.Throttled)))
		}
	}
	return rows
}
