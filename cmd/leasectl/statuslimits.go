package main

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/leasectl/leasectl/leaseapi"
)

// limitRows returns a row for each pool whose limit moves with the reports of holders: the limit,
// the limit at which it was last cut, and the report that moved it last.
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

// tallyRows returns, for each pool with a fixed limit, how many leases were reported ok and how
// many throttled, by the limit at that time. An operator needs these numbers to choose a limit.
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
