package shared

import (
	"fmt"

	"github.com/leasectl/leasectl/internal/holder/usage"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// choice is what a newcomer does next.
type choice struct {
	do     todo
	round  lockfile.Round // as it was when the choice was made
	use    *lockfile.Use  // reserved for it; nil: none
	behind string         // id of the expired round to join if no lease is free at once; "" is none
}

type todo int

const (
	joinRound   todo = iota // its users hold the lease
	reviveRound             // it is held, but no user lives: renew first
	beginRound              // a new one
	awaitRound              // one of its users is about to do something
	settleRound             // its users are dead, and its lease must be given back
)

// chooseIn decides, by the record, what a newcomer does. It changes nothing, except that it
// forgets dead users.
func (l lease) chooseIn(tx *lockfile.SharedTx) (choice, error) {
	var newest *lockfile.Round
	for i := range tx.Rounds {
		r := &tx.Rounds[i]
		if l.toSettle(tx, r) {
			return choice{do: settleRound, round: *r}, nil
		}
		if r.State != lockfile.RoundReleasing && !l.roundEnded(r) {
			newest = r
		}
	}
	if newest == nil {
		return choice{do: beginRound}, nil
	}
	live, kept := tx.HasLiveUser(newest, 0), l.kept(newest)
	conflict := l.conflict(*newest)
	switch {
	case !live && newest.State == lockfile.RoundHeld && (conflict != nil || newest.Expired(l.now())),
		!live && !kept && (conflict != nil || newest.Expired(l.now())):
		return choice{do: settleRound, round: *newest}, nil
	case conflict != nil:
		return choice{}, conflict
	case newest.State != lockfile.RoundHeld && (live || kept):
		return choice{do: awaitRound, round: *newest}, nil
	case newest.Expired(l.now()) && (newest.Closed(l.now()) || newest.Renews()):
		// A version-1 proxy is not asked whether a lease is free: it cannot say no.
		c := choice{do: beginRound}
		if !newest.Closed(l.now()) {
			c.behind = newest.ID
		}
		return c, nil
	case live || kept || !newest.Renews():
		return choice{do: joinRound, round: *newest}, nil
	}
	return choice{do: reviveRound, round: *newest}, nil
}

// conflict returns an error that names a setting that a newcomer wants and the round has
// otherwise; nil if there is none.
func (l lease) conflict(r lockfile.Round) error {
	const how = "shared lease %q: its round %s, and this command wants %s: take another NAME, or the same value"
	switch w := l.wanted; {
	case describeCount(w) != describeCount(r):
		return usage.Errorf(how, l.shown, "has "+describeCount(r), describeCount(w))
	case w.TTL != r.TTL && !l.options.AnyTTL:
		return usage.Errorf(how, l.shown, "has --ttl "+leaseapi.Duration(r.TTL).String(), "--ttl "+leaseapi.Duration(w.TTL).String())
	case w.Token != r.Token:
		return usage.Errorf(how, l.shown, "was begun with "+describeToken(r), describeToken(w))
	case !sameService(w.Service, r.Service):
		return usage.Errorf(how, l.shown, "has "+describeService(r), describeService(w))
	}
	return nil
}

// describeCount says how much a round takes. A request without a count takes one.
func describeCount(r lockfile.Round) string {
	if r.Items != nil {
		return fmt.Sprintf("--items %d", *r.Items)
	}
	return fmt.Sprintf("--count %d", max(1, r.Count))
}

// describeToken names the token of a round without revealing it.
func describeToken(r lockfile.Round) string {
	if r.Token == "" {
		return "no token"
	}
	if r.TokenFile == "" {
		return fmt.Sprintf("a token (digest %s) of --token-from", r.Token)
	}
	return fmt.Sprintf("the token (digest %s) of --token-file %s", r.Token, r.TokenFile)
}
