package lockfile

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/leasectl/leasectl/leaseapi"
)

// A file may be a stranger's letter: a handle in a checkout, a list that the steps of a test share. So each
// field is checked when its file is decoded, and before the file is written. Most texts are sent to a
// proxy and printed, some become parts of paths.

func (r Record) check() error {
	if r.RequestID == "" && (r.State == HandleQueued || r.State == HandleReleasing) {
		return errors.New("it has no request id")
	}
	if r.ReplacesOf == "" && len(r.Replaces) > 0 {
		return errors.New("it replaces leases of no request")
	}
	return cmp.Or(
		checkWord("state", r.State, HandleQueued, HandleHeld, HandleReleasing),
		checkRequest(r.RequestID), checkRequest(r.Within), checkRequest(r.ReplacesOf),
		leaseapi.CheckOwner(r.Owner), checkCaller(r.Taker),
		checkAsk(r.Ask), r.Terms.check(),
		checkProxy(r.Proxy), checkLine("store", r.Store), checkLine("seal", r.Seal), checkLine("adapter", r.Adapter),
		checkLeases(r.Leases), checkLeases(r.Replaces),
		checkPath("shared_list", r.SharedList),
		notNegative("units", r.Units), notNegative("resizes", r.Resizes), notNegative("ttl", r.TTL), notNegative("keeper_pid", r.KeeperPID))
}

func (t Terms) check() error {
	return cmp.Or(notNegative("ttl", t.TTL), notNegative("release_after", t.ReleaseAfter), leaseapi.CheckOwner(t.Owner),
		notNegative("owner_pid", t.OwnerPID), checkLine("owner_space", t.OwnerSpace))
}

func (in Intent) check() error {
	return cmp.Or(
		leaseapi.CheckRequestID(in.ID),
		checkWord("kind", in.Kind, KindAcquire, KindExec, KindRelease, KindKeep),
		checkRequest(in.Request), checkRequest(in.Within),
		checkPath("handle", in.Handle),
		checkProxy(in.Proxy),
		checkType(in.Type),
		leaseapi.CheckOwner(in.Owner), checkCaller(in.Taker), checkLine("store", in.Store),
		notNegative("count", in.Count), notNegative("pid", in.PID), notNegative("ttl_ns", in.TTL))
}

func (g Grant) check() error {
	return cmp.Or(checkLeases([]Lease{g.Lease}), checkProxy(g.Proxy), checkLine("store", g.Store), checkLine("adapter", g.Adapter), checkRequest(g.RequestID), leaseapi.CheckOwner(g.Owner), checkCaller(g.Taker))
}

func (r SharedRecord) check() error {
	err := cmp.Or(checkLine("name", r.Name), checkLine("boot", r.Boot), checkLine("space", r.Space))
	for _, round := range r.Rounds {
		err = cmp.Or(err, round.check())
	}
	return err
}

// check does not look at texts for people: why the lease was lost, and what the service printed.
func (r Round) check() error {
	err := cmp.Or(
		leaseapi.CheckRequestID(r.ID),
		checkWord("state", r.State, RoundAcquiring, RoundStarting, RoundHeld, RoundRenewing, RoundReleasing),
		checkPath("handle", r.Handle),
		checkType(r.Type), checkProxy(r.Proxy), leaseapi.CheckOwner(r.Owner),
		checkLine("token", r.Token), checkPath("token_file", r.TokenFile),
		checkLeases(r.Leases), checkLine("adapter", r.Adapter), checkLine("unit", r.Unit), checkLine("store", r.Store), checkRequest(r.RequestID), checkCaller(r.Taker),
		notNegative("by", r.By), notNegative("count", r.Count), notNegative("units", r.Units), notNegative("uses", r.Uses),
		notNegative("max_uses", r.MaxUses), notNegative("bound", r.Bound),
		notNegative("ttl_ns", r.TTL), notNegative("max_age_ns", r.MaxAge), notNegative("granted_ns", r.Granted), notNegative("renew_every_ns", r.RenewEvery),
		notNegative("expires_at_ns", r.ExpiresAt), notNegative("ends_at_ns", r.EndsAt), notNegative("renewed_at_ns", r.RenewedAt), notNegative("deadline_ns", r.Deadline))
	if r.Items != nil {
		err = cmp.Or(err, leaseapi.CheckItems(*r.Items))
	}
	for _, n := range r.Users {
		if n < 1 {
			err = cmp.Or(err, fmt.Errorf("user %d: they are numbered from 1", n))
		}
	}
	if s := r.Service; s != nil {
		err = cmp.Or(err, s.check())
	}
	return err
}

func (s Service) check() error {
	err := cmp.Or(notNegative("timeout_ns", s.Timeout), notNegative("grace_ns", s.Grace), notNegative("lasts_until_ns", s.LastsUntil))
	if s.Group < 0 || s.Group == 1 { // a signal to either would reach all processes
		err = cmp.Or(err, fmt.Errorf("group %d is no process group of a service", s.Group))
	}
	for _, text := range append([]string{s.Command, s.Ready}, s.Variables...) {
		if strings.ContainsRune(text, 0) {
			err = cmp.Or(err, errors.New("a text of the service contains NUL"))
		}
	}
	return err
}

func checkLeases(leases []Lease) error {
	if err := checkNames(Names(leases)); err != nil {
		return err
	}
	for _, l := range leases {
		if err := checkType(l.Type); err != nil {
			return err
		}
	}
	return nil
}

// checkAsk is [leaseapi.CheckAsk], also for what asks for nothing.
func checkAsk(a leaseapi.Ask) error {
	if a.Type == "" {
		a.Type = "-" // which of the others may be there all the same
	}
	return leaseapi.CheckAsk(&a)
}

// checkRequest is [leaseapi.CheckRequestID], also for none.
func checkRequest(id string) error {
	if id == "" {
		return nil
	}
	return leaseapi.CheckRequestID(id)
}

func checkCaller(c leaseapi.Caller) error {
	return cmp.Or(checkLine("name", c.Name), checkLine("issuer", c.Issuer))
}

// checkType is [leaseapi.CheckType], also for none.
func checkType(typ string) error {
	if typ == "" {
		return nil
	}
	return leaseapi.CheckType(typ)
}

// checkLine refuses a text that is not valid UTF-8, or has control characters. It may be empty.
func checkLine(what, text string) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%s %q has control characters, or is no UTF-8", what, leaseapi.Shorten(text))
	}
	return nil
}

// checkProxy refuses what is no address of a proxy, as files have them: with a scheme. It may be empty.
func checkProxy(address string) error {
	if address != "" && !strings.Contains(address, "://") {
		return fmt.Errorf("proxy %q has no scheme, such as http://", leaseapi.Shorten(address))
	}
	return checkLine("proxy", address)
}

// checkPath refuses a path that depends on the directory of the process. It may be empty.
func checkPath(what, path string) error {
	if path != "" && (!filepath.IsAbs(path) || strings.ContainsRune(path, 0)) {
		return fmt.Errorf("%s %q is no absolute path", what, leaseapi.Shorten(path))
	}
	return nil
}

// checkWord refuses a word that is none of the known ones.
func checkWord[T ~string](what string, word T, known ...T) error {
	for _, k := range known {
		if word == k {
			return nil
		}
	}
	return fmt.Errorf("%s %q is not known", what, leaseapi.Shorten(string(word)))
}

func notNegative[T ~int | ~int64](what string, n T) error {
	if n < 0 {
		return fmt.Errorf("%s is negative", what)
	}
	return nil
}
