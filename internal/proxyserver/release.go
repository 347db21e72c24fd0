package proxyserver

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

func (h *handler) serveRelease(c caller, w http.ResponseWriter, r *http.Request) {
	req := new(leaseapi.ReleaseRequest)
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	takeTurn(w, body)
	if err := checkSize(body); err != nil {
		badRequest(w, err)
		return
	}
	err := decodeBody(body, req)
	if errors.Is(err, errInvalidBody) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err = cmp.Or(err, checkRelease(req)); err != nil {
		badRequest(w, err)
		return
	}
	uniqueRelease(req)
	var reply leaseapi.ReleaseReply
	var ended pool.Lease // the lease whose peak req reports; zero: none
	unknown := ""
	var learned time.Time // when the caller learned of req.Names; zero: not said
	if req.KnownFor != nil {
		learned = time.Now().Add(-time.Duration(*req.KnownFor))
	}
	leases := len(req.Names) + len(req.Leases) + len(req.RequestIDs)
	if req.All {
		leases = math.MaxInt // it passes over all that are held
	}
	err = h.term().attemptOver(leases, c.id, func(set *pool.Set, now time.Duration) error {
		if err := cmp.Or(c.mayRelease(set, now, req), c.checkDelay(set, now, req)); err != nil {
			return err
		}
		if req.All {
			reply = releaseAll(set, now, c.owns(req.Owner))
			return nil
		}
		ended = c.measured(set, now, req)
		c.reportReleased(set, now, req.Report)
		reply, unknown = c.release(set, now, req, learned)
		return nil
	})
	if err == nil && ended.Name != "" {
		h.metrics.Peak(ended.Type, ended.Units, *req.Peak)
	}
	tooLong, isTooLong := errors.AsType[delayError](err)
	switch {
	case isTooLong:
		badRequest(w, tooLong)
	case err != nil:
		h.refuseCall(w, err)
	case unknown != "":
		http.Error(w, fmt.Sprintf("%s%s: %s: the server has never had it\nReleased: %s",
			leaseapi.TextReleaseFailed, unknown, leaseapi.TextNoName, strings.Join(reply.Released, " ")), http.StatusInternalServerError)
	case ours(req):
		answer(w, http.StatusOK, reply)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// ours reports whether req has a field that version 1 does not have.
func ours(req *leaseapi.ReleaseRequest) bool {
	beyond := *req
	beyond.Names = nil
	return !reflect.ValueOf(beyond).IsZero()
}

func checkRelease(req *leaseapi.ReleaseRequest) error {
	if err := notNegative("delay", time.Duration(req.Delay)); err != nil {
		return err
	}
	rest := len(req.Names)+len(req.Leases)+len(req.RequestIDs) > 0 || req.Delay > 0 || req.ExitCode != nil || req.Peak != nil || req.Report != nil
	if req.All && (req.Owner == "" || rest) {
		return errors.New("all goes with owner, and with nothing else")
	}
	if req.KnownFor != nil {
		if req.Owner == "" || len(req.Names) == 0 {
			return errors.New("known_for goes with names and owner")
		}
		if err := notNegative("known_for", time.Duration(*req.KnownFor)); err != nil {
			return err
		}
	}
	if code := req.ExitCode; code != nil && (req.Delay > 0 || *code < 0 || *code > 255) {
		return errors.New("exit_code is 0 to 255, and does not go with delay")
	}
	if req.Delay > 0 && len(req.RequestIDs) > 0 {
		return errors.New("delay does not go with request_ids")
	}
	if err := leaseapi.CheckOwner(req.Owner); err != nil {
		return err
	}
	if slices.Contains(req.Names, "") {
		return errors.New("a name is empty")
	}
	if n := len(req.Names); n > mostObjects && ours(req) {
		return fmt.Errorf("%d names are too many: at most %d go into one release", n, mostObjects)
	}
	if n := len(req.RequestIDs); n > mostIDs {
		return fmt.Errorf("%d request ids are too many: at most %d go into one release", n, mostIDs)
	}
	for _, id := range req.RequestIDs {
		if err := leaseapi.CheckRequestID(id); err != nil {
			return err
		}
	}
	return checkLeases(req.Leases)
}

// delayError says that a release was put off for too long.
type delayError string

func (e delayError) Error() string { return string(e) }

// checkDelay returns an error if req puts off the end of a lease of a pool that c may not use, or, a
// delayError, for longer than its pool allows.
func (c caller) checkDelay(set *pool.Set, now time.Duration, req *leaseapi.ReleaseRequest) error {
	if req.Delay == 0 {
		return nil
	}
	check := func(name string, generation uint64) error {
		l, held := set.Held(now, name)
		if !held || l.Generation != cmp.Or(generation, l.Generation) || c.hides(set, now, name) {
			return nil
		}
		if err := c.mayKeep(l); err != nil {
			return err
		}
		if most := set.LongestDelay(l.Type); time.Duration(req.Delay) > most {
			return delayError(fmt.Sprintf("delay %s is too long: the release of a lease of type %q is put off by %s at the most: ask for less, or renew the lease until it is no longer needed",
				req.Delay, l.Type, leaseapi.Duration(most)))
		}
		return nil
	}
	for _, l := range req.Leases {
		if err := check(l.Name, l.Generation); err != nil {
			return err
		}
	}
	for _, name := range req.Names {
		if err := check(name, 0); err != nil {
			return err
		}
	}
	return nil
}

// checkLeases refuses leases without a generation: they would mean any lease of
// that name.
func checkLeases(leases []leaseapi.Lease) error {
	for _, l := range leases {
		if l.Generation == 0 {
			return fmt.Errorf("lease %q has no generation", leaseapi.Shorten(l.Name))
		}
	}
	return nil
}

// releaseAll ends all that an owner holds and waits for.
func releaseAll(set *pool.Set, now time.Duration, meant func(holder string) bool) leaseapi.ReleaseReply {
	names, withdrawn := set.ReleaseAll(now, meant)
	return leaseapi.ReleaseReply{Released: append([]string{}, names...), All: true, Withdrawn: withdrawn}
}

// measured returns the lease that req ends and whose peak it reports, if the lease is of a
// pool of memory. Else, as for a second copy of a release, it returns the zero Lease.
func (c caller) measured(set *pool.Set, now time.Duration, req *leaseapi.ReleaseRequest) pool.Lease {
	if req.Peak == nil || req.Peak.Bytes <= 0 || len(req.Leases) != 1 || req.Delay > 0 {
		return pool.Lease{}
	}
	held, ok := set.Held(now, req.Leases[0].Name)
	if !ok || c.hides(set, now, held.Name) || held.Generation != req.Leases[0].Generation || !leaseapi.IsMemory(set.Unit(held.Type)) {
		return pool.Lease{}
	}
	return held
}

// end releases the lease of ref, now or later, and passes on the exit code of its
// command if req has it.
func end(set *pool.Set, now time.Duration, ref pool.Ref, req *leaseapi.ReleaseRequest) pool.Reason {
	if req.ExitCode != nil {
		return set.Finish(now, ref, pool.Exited(*req.ExitCode))
	}
	return set.Release(now, ref, time.Duration(req.Delay))
}

// release does what req asks for. learned is when the caller learned of its names. Bare names come
// last: as in version 1, the first name that the server never had ends the call half-way, and is
// returned as unknown. Bare names mean the leases held, and the reservations, when the call comes:
// mayRelease has seen to these only, and a name that the call frees may be granted or reserved at once.
func (c caller) release(set *pool.Set, now time.Duration, req *leaseapi.ReleaseRequest, learned time.Time) (reply leaseapi.ReleaseReply, unknown string) {
	reply.Released = []string{}
	delay := time.Duration(req.Delay)
	meant := make([]struct {
		generation uint64
		reserved   bool
	}, len(req.Names))
	for i, name := range req.Names {
		l, _ := set.Held(now, name)
		meant[i].generation = l.Generation
		_, meant[i].reserved = reservedBy(set, now, name, req.Owner)
	}
	for _, id := range req.RequestIDs {
		reply.Released = append(reply.Released, set.Cancel(now, c.ownRequest(set, now, id))...)
	}
	answered := func(l leaseapi.Lease, ref pool.Ref, why pool.Reason, ended bool) {
		if why != "" {
			reply.Stale = append(reply.Stale, leaseapi.Lost{Lease: plain(l), Reason: string(why)})
			return
		}
		reply.Released = append(reply.Released, l.Name)
		if why, lost := set.Lost(now, ref); lost && (ended || delay > 0) { // it ended before this call
			over := leaseapi.Lease{Name: ref.Name, Generation: ref.Generation}
			reply.Over = append(reply.Over, leaseapi.Lost{Lease: over, Reason: string(why)})
		}
	}
	for _, l := range req.Leases {
		ref := c.refTo(set, now, l)
		held, ok := set.Held(now, l.Name)
		ended := !ok || held.Generation != l.Generation
		answered(l, ref, end(set, now, ref, req), ended)
	}
	for i, name := range req.Names {
		_, reserved := reservedBy(set, now, name, req.Owner)
		ref := c.refOf(set, now, name, req.Owner)
		ref.KnownAt = learned
		var why pool.Reason
		l, held := set.Held(now, name)
		switch {
		case reserved && !meant[i].reserved:
			why = pool.Taken
		case held && l.Generation != meant[i].generation:
			why = pool.Other
		default:
			why = set.Release(now, ref, delay)
		}
		switch {
		case why == pool.Unknown:
			return reply, name
		case why == "" && reserved:
			reply.Released = append(reply.Released, name)
		default:
			answered(leaseapi.Lease{Name: name}, ref, why, !held)
		}
	}
	return reply, ""
}
