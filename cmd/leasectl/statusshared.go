package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder/shared"
	"github.com/leasectl/leasectl/leaseapi"
)

// sharedStatus prints the rounds of a shared lease of this machine. It does not ask the proxy.
func (a *app) sharedStatus(name, typ string) error {
	rounds, err := a.sharedRounds(typ)
	shown := leaseapi.Clip(name, leaseapi.MaxName)
	rounds = slices.DeleteFunc(rounds, func(r shared.Round) bool { return r.Name != shown })
	if err == nil && len(rounds) == 0 && a.proxy.unset() {
		return a.dryRun("no command of this machine shares a lease as %q now", shown)
	}
	if err == nil && len(rounds) == 0 {
		return fmt.Errorf("no command of this machine shares a lease as %q now", shown)
	}
	if a.output == "json" {
		return errors.Join(err, a.printJSON(struct {
			Shared []shared.Round `json:"shared"`
		}{emptyNotNull(rounds)}))
	}
	return errors.Join(err, a.print("%s", roomOf(a.stdout).wide().format([]section{sharedTable(rounds), serviceTable(rounds)})))
}

// serviceTable has a row for each service of a shared lease.
func serviceTable(rounds []shared.Round) section {
	var rows []string
	for _, r := range rounds {
		if s := r.Service; s != nil {
			rows = append(rows, row(shortID(r), s.State, strconv.Itoa(s.Group), sinceOf(s.Since), leaseapi.Clip(s.Command, leaseapi.MaxName), cmp.Or(s.LastLine, "-")))
		}
	}
	return section{"ROUND\tSERVICE\tGROUP\tSINCE\tCOMMAND\tLAST LINE", rows}
}

// sinceOf formats a time for people; "-" if there is none.
func sinceOf(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// sharedRounds returns the shared leases of this machine, of type typ, or of all types if typ is
// "". With an error it returns those that it could read.
func (a *app) sharedRounds(typ string) (rounds []shared.Round, err error) {
	all, err := shared.Rounds(a.holder)
	for _, r := range all {
		if typ == "" || r.Type == typ {
			rounds = append(rounds, r)
		}
	}
	return rounds, err
}

// sharedTable has a row for each shared lease.
func sharedTable(rounds []shared.Round) section {
	var rows []string
	for _, r := range rounds {
		names := cmp.Or(strings.Join(r.Names, ","), string(r.State))
		rows = append(rows, row(r.Name, r.Type, names, shortID(r), usesOf(r), strconv.Itoa(r.Users), sinceOf(r.Since)))
	}
	return section{"SHARED HERE AS\tTYPE\tLEASE\tROUND\tUSES\tUSERS\tSINCE", rows}
}

// shortID returns as much of a round's id as people need to tell rounds apart.
func shortID(r shared.Round) string { return r.Round[:min(len(r.Round), 8)] }

// usesOf returns the number of uses of a round, and of how many if they are bounded.
func usesOf(r shared.Round) string {
	if r.Bound > 0 {
		return fmt.Sprintf("%d/%d", r.Uses, r.Bound)
	}
	return strconv.Itoa(r.Uses)
}
