package proxyserver

import (
	"cmp"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/past"
	"github.com/leasectl/leasectl/internal/proxyserver/ui"
	"github.com/leasectl/leasectl/leaseapi"
)

// site gives the status page what it needs of the server. It implements [ui.Server].
type site struct{ h *handler }

func (s site) CheckOrigin(r *http.Request) error { return s.h.checkPageOrigin(r) }

func (s site) Known(by auth.Token, w http.ResponseWriter, r *http.Request) error {
	return s.h.known(by.Caller().ID(), w, r)
}

func (s site) ReadBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, bool) {
	return readBodyOf(w, r, most)
}

func (s site) Gate() *auth.Gate { return s.h.gate }

func (s site) NotAdmitted(r *http.Request, why *auth.Refusal) { s.h.refused(r, why) }

func (s site) Refused(reason string) { s.h.metrics.Refused("", reason) }

func (s site) StoreID() string { return s.h.storeID() }

func (s site) Durable() bool { return s.h.durable() }

func (s site) Crowded() bool { return s.h.connections.Crowded() }

func (s site) Leader() *leaseapi.Leader { return s.h.leader() }

func (s site) Term() ui.Term { return shownTerm{s.h.term()} }

func (s site) Pause(by auth.Token, typ, reason string) error {
	req := leaseapi.PauseRequest{Type: typ, Reason: reason}
	if err := checkPause(req); err != nil {
		return err
	}
	_, err := s.h.pause(callerOf(by.Caller()), req)
	return err
}

// Resume has no reason on the wire. Here it has one, for the log.
func (s site) Resume(by auth.Token, typ, reason string) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	_, err := s.h.resume(callerOf(by.Caller()), leaseapi.ResumeRequest{Type: typ}, reason)
	return err
}

func (s site) Remove(by auth.Token, req leaseapi.RemoveRequest) error {
	if err := checkRemove(req); err != nil {
		return err
	}
	_, err := s.h.remove(callerOf(by.Caller()), req)
	return err
}

func (s site) Move(by auth.Token, req leaseapi.MoveRequest) error {
	if err := checkMove(req); err != nil {
		return err
	}
	_, err := s.h.move(callerOf(by.Caller()), req)
	return err
}

func (s site) Break(by auth.Token, req leaseapi.BreakRequest) error {
	if err := checkBreak(req); err != nil {
		return err
	}
	_, err := s.h.breakLease(callerOf(by.Caller()), req)
	return err
}

func (s site) Reserve(by auth.Token, req leaseapi.ReserveRequest) error {
	if err := checkReserve(req); err != nil {
		return err
	}
	_, err := s.h.reserve(callerOf(by.Caller()), req)
	return err
}

// GiveBack ends a reservation, whoever has it. On the wire its owner does that, by a release.
func (s site) GiveBack(by auth.Token, name, reason string) error {
	if err := cmp.Or(leaseapi.CheckName(name), checkReason(reason)); err != nil {
		return err
	}
	return s.h.giveBackReserved(callerOf(by.Caller()), name, reason)
}

func (s site) Unavailable(err error) bool { return refusesAll(err) }

// shownTerm is a term as the status page sees it. It implements [ui.Term].
type shownTerm struct{ *term }

func (t shownTerm) Do(op func(set *pool.Set, now time.Duration)) error { return t.doInTurn("", op) }

func (t shownTerm) Zero() time.Time { return t.clock.read().Add(-t.clock.now()) }

func (t shownTerm) Past() *past.Past { return t.past }

func (t shownTerm) Peaks(typ string) *leaseapi.Peaks { return t.metrics.Peaks(typ) }

func (t shownTerm) Changed() uint64 { return t.changed.Load() }
