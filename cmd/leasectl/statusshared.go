package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/holder"
)

// sharedRounds returns the shared leases of this machine, of type typ, or of all types if typ is
// "". With an error it returns those that it could read.
func (a *app) sharedRounds(typ string) (rounds []holder.SharedRound, err error) {
	all, err := a.holder.SharedRounds()
	for _, r := range all {
		if typ == "" || r.Type == typ {
			rounds = append(rounds, r)
		}
	}
	return rounds, err
}

// sharedTable formats shared leases for people; "" if there are none.
func sharedTable(rounds []holder.SharedRound) string {
	var rows []string
	for _, r := range rounds {
		since := "-"
		if !r.Since.IsZero() {
			since = r.Since.Local().Format(time.DateTime)
		}
		names := cmp.Or(strings.Join(r.Names, ","), string(r.State))
		rows = append(rows, row(r.Name, r.Type, names, shortID(r), usesOf(r), strconv.Itoa(r.Users), since))
	}
	return section("SHARED HERE AS\tTYPE\tLEASE\tROUND\tUSES\tUSERS\tSINCE", rows)
}

// shortID returns as much of a round's id as people need to tell rounds apart.
func shortID(r holder.SharedRound) string { return r.Round[:min(len(r.Round), 8)] }

// usesOf returns the number of uses of a round, and of how many if they are bounded.
func usesOf(r holder.SharedRound) string {
	if r.Bound > 0 {
		return fmt.Sprintf("%d/%d", r.Uses, r.Bound)
	}
	return strconv.Itoa(r.Uses)
}
