package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// What a command is about to do at the proxy stands in the journal first, and
// goes when it is done or known not to have happened. What stands there for a
// process that is dead is for the next run to settle, or for recover.

func journalOf(stateDir string) lockfile.Journal {
	return lockfile.Journal(filepath.Join(stateDir, "intents"))
}

// openIntents are the journal entries of this process, by their ids. They are
// kept here, and not with what they are about, because they have to be held
// until that is settled, however many functions have returned by then.
type openIntents struct {
	mu      sync.Mutex
	entries map[string]*lockfile.Entry
}

func (o *openIntents) begin(ctx context.Context, in lockfile.Intent) error {
	in.PID, in.Begun = os.Getpid(), time.Now().UTC().Round(time.Millisecond)
	dir := stateDir()
	if err := lockfile.MakeDir(dir); err != nil {
		return fmt.Errorf("%w (it is for the journal; $LEASECTL_STATE_DIR names another)", err)
	}
	entry, err := journalOf(dir).Begin(ctx, in)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.entries == nil {
		o.entries = make(map[string]*lockfile.Entry)
	}
	o.entries[in.ID] = entry
	return nil
}

// settle removes an entry: nothing is left to do. An id that is none of ours is
// fine. An entry that cannot be removed does no harm: whoever settles it again
// finds that there is nothing to settle.
func (o *openIntents) settle(id string) {
	if e := o.take(id); e != nil {
		e.Settle()
	}
}

// leave gives an entry up for others to settle.
func (o *openIntents) leave(id string) {
	if e := o.take(id); e != nil {
		e.Leave()
	}
}

func (o *openIntents) take(id string) *lockfile.Entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.entries[id]
	delete(o.entries, id)
	return e
}

// covers tells whether our open entries are about all that is owed.
func (o *openIntents) covers(owed []lockfile.Owed) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range owed {
		if o.entries[d.RequestID] == nil {
			return false
		}
	}
	return true
}

// beginAcquire writes down that h's request is about to be made. Without that
// it must not be.
func (a *app) beginAcquire(ctx context.Context, o *takeOptions, h *holding) error {
	kind := lockfile.KindExec
	if o.outlives {
		kind = lockfile.KindAcquire
	}
	return a.journal.begin(ctx, lockfile.Intent{
		ID:      h.record.RequestID,
		Kind:    kind,
		Request: h.record.RequestID,
		Handle:  h.handle.Path(),
		Proxy:   h.record.Proxy,
		Type:    h.record.Type,
		Count:   h.record.Count,
		Owner:   h.record.Owner,
	})
}

// beginRelease writes down that what a handle has is about to be given back,
// so that recover finds the handle wherever it is. It returns the entry's id. A
// release is not worth less without a journal, so a failure is only said.
func (a *app) beginRelease(ctx context.Context, handle lockfile.Handle, r lockfile.Record) (id string) {
	if a.journal.covers(debts(r)) {
		return ""
	}
	id = rand.Text()
	err := a.journal.begin(ctx, lockfile.Intent{
		ID:      id,
		Kind:    lockfile.KindRelease,
		Request: r.RequestID,
		Handle:  handle.Path(),
		Proxy:   proxyOwed(r),
		Type:    r.Type,
		Count:   r.Count,
		Owner:   r.Owner,
	})
	if err != nil {
		a.debugf("%v", err)
		return ""
	}
	return id
}

// proxyOwed is a proxy that a record makes its handle owe to.
func proxyOwed(r lockfile.Record) string {
	for _, d := range debts(r) {
		if d.Proxy != "" {
			return d.Proxy
		}
	}
	return ""
}

// settleTime bounds what an acquire does for the dead before it looks after
// itself: some round trips to a proxy that answers.
const settleTime = 500 * time.Millisecond

// settleOwn settles what dead processes of this machine have left at the proxy
// that is about to be asked. It never fails: what it does not manage, the next
// run or recover does.
func (a *app) settleOwn(ctx context.Context, proxy string) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	s := &settling{a: a, proxyOf: func(recorded string) string {
		if recorded != proxy {
			return ""
		}
		return proxy
	}}
	err := journalOf(stateDir()).Dead(ctx, func(in lockfile.Intent) bool {
		if in.Proxy != proxy {
			return false
		}
		done, err := s.settle(ctx, in)
		switch {
		case err != nil:
			a.debugf("journal: %s: %v", describeIntent(in), err)
			cancel() // the rest would hardly fare better
			return false
		case done.unconfirmed:
			a.debugf("journal: %s", done.text(in))
			cancel() // nor would it, at a proxy of version 1
			return false
		case len(done.released) > 0:
			a.notef("journal: %s", done.text(in))
		}
		return true
	})
	if err != nil {
		a.debugf("%v", err)
	}
}

// settling settles intents of dead processes.
type settling struct {
	a *app
	// proxyOf is where to go for what is owed to a recorded proxy; "" leaves
	// it for another time.
	proxyOf func(recorded string) string
}

// settlement is what became of an intent.
type settlement struct {
	released    []string
	kept        []string // the handle has these names: they are its user's
	unconfirmed bool     // it cannot be known, or not safely be done
}

var errOtherProxy = errors.New("it is owed to another proxy")

// settle settles one intent, whose lock the caller holds. The handle decides,
// under its lock: if it has the request, what it says counts. A handle that
// does not have it has given it up, or never got it.
func (s *settling) settle(ctx context.Context, in lockfile.Intent) (done settlement, err error) {
	named := false // what was granted is known by name, and dealt with
	if handle, err := lockfile.OpenHandle(in.Handle); err == nil {
		err = handle.Update(ctx, func(tx *lockfile.Tx) error {
			ours := in.Request != "" && tx.RequestID == in.Request
			if ours && tx.State == lockfile.StateHeld && in.Kind == lockfile.KindAcquire {
				done.kept, named = tx.Names(), true
				return nil
			}
			for _, d := range debts(tx.Record) {
				named = named || d.RequestID == in.Request && len(d.Leases) > 0
			}
			return s.payAll(ctx, tx, ours, &done)
		})
		if err != nil {
			return done, err
		}
	} // else it is no handle any more
	if named || in.Kind == lockfile.KindRelease || done.unconfirmed {
		if len(done.kept) == 0 && !done.unconfirmed {
			dismissKeeper(in.Request) // it may be what was killed
		}
		return done, nil
	}
	names, err := s.withdraw(ctx, in)
	if errors.Is(err, errors.ErrUnsupported) {
		done.unconfirmed, err = true, nil
	}
	done.released = append(done.released, names...)
	return done, err
}

// payAll pays what a handle owes, and with all also what it has, which nobody
// has begun to release. The handle is removed if nothing is left.
func (s *settling) payAll(ctx context.Context, tx *lockfile.Tx, all bool, done *settlement) error {
	owed := tx.Owed
	unsent := all && (tx.State == lockfile.StateHeld || tx.State == lockfile.StateQueued)
	if unsent {
		owed = debts(tx.Record)
		tx.Record = lockfile.Record{State: lockfile.StateReleasing, Owed: owed}
		if err := tx.Save(); err != nil {
			return err
		}
	}
	for i, d := range owed {
		proxy := s.proxyOf(d.Proxy)
		if proxy == "" {
			return fmt.Errorf("release %s: %w", describeDebt(d), errOtherProxy)
		}
		// The last one is what the handle had until now. A bare name that may
		// have been released before may be another's by now, and a version-1
		// proxy would not ask.
		if fresh := unsent && i == len(owed)-1; !fresh && bare(d) {
			old, err := s.versionOne(ctx, proxy)
			if err != nil {
				return errors.Join(err, tx.Save())
			}
			if old {
				done.unconfirmed = true
				return nil
			}
		}
		failpoint("settling-unsent")
		names, err := s.a.payAt(ctx, proxy, d)
		if err != nil {
			return errors.Join(err, tx.Save())
		}
		failpoint("settling-answered")
		done.released = append(done.released, names...)
		tx.Owed = owed[i+1:]
		s.a.paid([]lockfile.Owed{d})
	}
	if tx.State == lockfile.StateReleasing {
		tx.Record = lockfile.Record{}
	}
	return nil
}

// bare tells whether a debt is of names without generations.
func bare(d lockfile.Owed) bool {
	for _, l := range d.Leases {
		if l.Generation == 0 {
			return true
		}
	}
	return false
}

// versionOne tells whether a proxy knows names only.
func (s *settling) versionOne(ctx context.Context, proxy string) (bool, error) {
	client, err := s.a.dial(ctx, proxy)
	if err != nil {
		return false, err
	}
	_, err = client.Health(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		return true, nil
	}
	return false, err
}

// withdraw ends whatever a request got or waits for, by its id.
func (s *settling) withdraw(ctx context.Context, in lockfile.Intent) ([]string, error) {
	proxy := s.proxyOf(in.Proxy)
	if proxy == "" {
		return nil, fmt.Errorf("withdraw request %s: %w", in.Request, errOtherProxy)
	}
	client, err := s.a.dial(ctx, proxy)
	if err != nil {
		return nil, err
	}
	reply, err := client.Release(ctx, leaseapi.ReleaseRequest{RequestIDs: []string{in.Request}})
	if err != nil {
		return nil, fmt.Errorf("withdraw request %s: %w", in.Request, err)
	}
	return reply.Released, nil
}
