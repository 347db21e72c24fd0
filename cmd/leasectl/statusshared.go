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
// "". It prints a failure and does not return it, so that the rest of the status is shown.
func (a *app) sharedRounds(typ string) (rounds []holder.SharedRound) {
	all, err := a.holder.SharedRounds()
	if err != nil {
		a.Failf("%v", err)
	}
	for _, r := range all {
		if typ == "" || r.Type == typ {
			rounds = append(rounds, r)
		}
	}
	return rounds
}

// sharedTable formats shared leases for people; "" if there are none.
func sharedTable(rounds []holder.SharedRound) string {
	var rows []string
	for _, r := range rounds {
		uses := strconv.Itoa(r.Uses)
		if r.Bound > 0 {
			uses = fmt.Sprintf("%d/%d", r.Uses, r.Bound)
		}
		since := "-"
		if !r.Since.IsZero() {
			since = r.Since.Local().Format(time.DateTime)
		}
		names := cmp.Or(strings.Join(r.Names, ","), string(r.State))
		rows = append(rows, row(r.Name, r.Type, names, r.Round[:min(len(r.Round), 8)], uses, strconv.Itoa(r.Users), since))
	}
	return section("SHARED HERE AS\tTYPE\tLEASE\tROUND\tUSES\tUSERS\tSINCE", rows)
}
