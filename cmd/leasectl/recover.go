package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

type recoverOptions struct {
	forget []string
}

func newRecoverCommand(a *app) *cobra.Command {
	o := new(recoverOptions)
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "settle what killed runs left",
		Long: `Recover gives back what leasectl processes had asked for, held or begun to
release when they were killed, as their journal and the handles in the state
directory say, and removes the files they left. It prints what it did, a line
each. What live processes are about is not touched.

A version-1 proxy cannot say what became of a request. Such a request is listed
as unconfirmed, with exit code 1, until --forget names it.`,
		Example: `  leasectl recover`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.recover(cmd.Context(), o) },
	}
	cmd.Flags().StringSliceVar(&o.forget, "forget", nil, "ids of unconfirmed requests that were looked after by hand")
	return cmd
}

// leftoverAge is how old a file of no handle must be to be removed: nothing that
// is still going on takes a day.
const leftoverAge = 24 * time.Hour

// recovery is one run of recover.
type recovery struct {
	settling
	o *recoverOptions

	actions   []action
	forgotten []string
	failures  []error
	silent    map[string]error // proxies that did not answer: each is asked once
}

// action is something that recover did or found, a line of its output.
type action struct {
	Result  string    `json:"result"`
	ID      string    `json:"id,omitempty"` // of the journal entry
	Handle  string    `json:"handle,omitempty"`
	Names   []string  `json:"names,omitempty"`
	Type    string    `json:"type,omitempty"`
	Count   int       `json:"count,omitempty"`
	Proxy   string    `json:"proxy,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Path    string    `json:"path,omitempty"`
	Message string    `json:"message"`
}

// Results of actions.
const (
	resultReleased    = "released"
	resultWithdrawn   = "withdrawn"
	resultKept        = "kept"
	resultUnconfirmed = "unconfirmed"
	resultForgotten   = "forgotten"
	resultRemoved     = "removed"
)

var errUnconfirmed = errors.New("unconfirmed: look at the proxy what is held there, give it back, then drop the line with leasectl recover --forget ID")

func (a *app) recover(ctx context.Context, o *recoverOptions) error {
	r := &recovery{o: o, silent: make(map[string]error)}
	r.settling = settling{a: a, proxyOf: func(recorded string) string {
		return a.proxyOf(lockfile.Record{Proxy: recorded})
	}}
	if err := r.intents(ctx); err != nil {
		r.failures = append(r.failures, err)
	}
	if err := r.handles(ctx); err != nil {
		r.failures = append(r.failures, err)
	}
	r.sweep()
	if err := r.print(); err != nil {
		return err
	}
	return r.outcome(ctx)
}

// intents settles the journal.
func (r *recovery) intents(ctx context.Context) error {
	return journalOf(stateDir()).Dead(ctx, func(in lockfile.Intent) bool {
		if slices.Contains(r.o.forget, in.ID) {
			r.forgotten = append(r.forgotten, in.ID)
			r.did(in, settlement{}, resultForgotten)
			return true
		}
		if err := r.silent[in.Proxy]; err != nil {
			r.failures = append(r.failures, err)
			return false
		}
		ctx, cancel := releaseContext(ctx)
		defer cancel()
		done, err := r.settle(ctx, in)
		if err != nil {
			if errors.Is(err, proxyclient.ErrUnreachable) {
				r.silent[in.Proxy] = err
			}
			r.failures = append(r.failures, fmt.Errorf("%s: %w", describeIntent(in), err))
		}
		switch {
		case done.unconfirmed:
			r.did(in, done, resultUnconfirmed)
		case len(done.released) > 0:
			r.did(in, done, resultReleased)
		case err == nil && len(done.kept) > 0:
			r.did(in, done, resultKept)
		case err == nil:
			r.did(in, done, resultWithdrawn)
		}
		return err == nil && !done.unconfirmed
	})
}

func (r *recovery) did(in lockfile.Intent, done settlement, result string) {
	act := action{
		Result: result, ID: in.ID, Handle: in.Handle, Type: in.Type, Count: in.Count,
		Proxy: in.Proxy, PID: in.PID, Since: in.Begun,
		Names:   append(done.released, done.kept...),
		Message: done.text(in),
	}
	if result == resultForgotten {
		act.Message = fmt.Sprintf("forgotten: %s", describeIntent(in))
	}
	r.actions = append(r.actions, act)
}

// text says what became of an intent.
func (d settlement) text(in lockfile.Intent) string {
	who := describeIntent(in)
	switch {
	case d.unconfirmed:
		return fmt.Sprintf("unconfirmed: %s: up to %d of type %q may be held at %s since %s",
			who, max(in.Count, 1), in.Type, in.Proxy, in.Begun.Format(time.RFC3339))
	case len(d.released) > 0:
		return fmt.Sprintf("released %s: %s", strings.Join(d.released, ", "), who)
	case len(d.kept) > 0:
		return fmt.Sprintf("kept %s: handle %s has it: release that if nobody needs it: %s", strings.Join(d.kept, ", "), in.Handle, who)
	case in.Kind == lockfile.KindRelease:
		return fmt.Sprintf("nothing left to release in handle %s: %s", in.Handle, who)
	}
	return fmt.Sprintf("withdrawn, nothing was held: %s", who)
}

// describeIntent says what the dead process was doing.
func describeIntent(in lockfile.Intent) string {
	what := map[lockfile.Kind]string{
		lockfile.KindAcquire: "acquire",
		lockfile.KindExec:    "exec",
		lockfile.KindRelease: "release",
	}[in.Kind]
	return fmt.Sprintf("%s %s (process %d) was killed", what, in.ID, in.PID)
}

// handles gives back what handles of the state directory owe, and what a killed
// keeper should have given back by now.
func (r *recovery) handles(ctx context.Context) error {
	handles, err := lockfile.Handles(stateDir())
	if err != nil {
		return err
	}
	for _, h := range handles {
		if err := r.handle(ctx, h); err != nil {
			r.failures = append(r.failures, fmt.Errorf("handle %s: %w", h.Path(), err))
		}
	}
	return nil
}

func (r *recovery) handle(ctx context.Context, h lockfile.Handle) error {
	record, err := h.Read()
	switch {
	case err == nil && (record.State == lockfile.StateReleasing || overdue(record)):
	case err == nil:
		return nil
	default:
		removed, err := h.Sweep(ctx, time.Now().Add(-leftoverAge))
		if removed {
			r.removed(h.Path(), "the rest of handle "+h.Path())
		}
		return err
	}
	if err := r.silent[proxyOwed(record)]; err != nil {
		return err
	}
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	var done settlement
	err = h.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.State != lockfile.StateReleasing && !overdue(tx.Record) {
			return nil // somebody was faster
		}
		return r.payAll(ctx, tx, true, &done)
	})
	if errors.Is(err, proxyclient.ErrUnreachable) {
		r.silent[proxyOwed(record)] = err
	}
	act := action{Handle: h.Path(), Names: done.released, Proxy: proxyOwed(record)}
	switch {
	case done.unconfirmed:
		act.Result = resultUnconfirmed
		act.Names = namesOwed(record)
		act.Message = fmt.Sprintf("unconfirmed: %s of handle %s may still be held at %s: if it is, leasectl release --handle %s gives it back; else remove the handle",
			strings.Join(act.Names, ", "), h.Path(), act.Proxy, h.Path())
	case len(done.released) > 0:
		act.Result = resultReleased
		act.Message = fmt.Sprintf("released %s: handle %s owed it", strings.Join(done.released, ", "), h.Path())
	case err == nil && record.State == lockfile.StateReleasing:
		act.Result = resultRemoved
		act.Message = fmt.Sprintf("removed handle %s: it owed nothing any more", h.Path())
	default:
		return err
	}
	if !r.listed(h.Path()) {
		r.actions = append(r.actions, act)
	}
	return err
}

// listed tells whether a handle is unconfirmed by way of the journal already.
func (r *recovery) listed(handle string) bool {
	return slices.ContainsFunc(r.actions, func(a action) bool {
		return a.Handle == handle && a.Result == resultUnconfirmed
	})
}

// overdue tells whether a release that a keeper was to do has not been done,
// and will not be, since it was killed.
func overdue(r lockfile.Record) bool {
	return r.State == lockfile.StateHeld && !r.ReleaseAt.IsZero() && time.Now().After(r.ReleaseAt) &&
		bare(lockfile.Owed{Leases: r.Leases}) && keeperState(r.RequestID) == keeperKilled
}

func namesOwed(r lockfile.Record) (names []string) {
	for _, d := range debts(r) {
		names = append(names, d.Names()...)
	}
	return names
}

func (r *recovery) removed(path, what string) {
	r.actions = append(r.actions, action{Result: resultRemoved, Path: path, Message: "removed " + what})
}

// sweep removes what killed processes left that no handle needs.
func (r *recovery) sweep() {
	old := time.Now().Add(-leftoverAge)
	temps, err := lockfile.SweepTemp(stateDir(), old)
	if err != nil {
		r.failures = append(r.failures, err)
	}
	for _, path := range temps {
		r.removed(path, path)
	}
	sockets, _ := os.ReadDir(keeperDir())
	for _, s := range sockets {
		path := filepath.Join(keeperDir(), s.Name())
		info, err := s.Info()
		if err != nil || info.ModTime().After(old) || keeperState(s.Name()) != keeperKilled {
			continue
		}
		if os.Remove(path) == nil {
			r.removed(path, path)
		}
	}
}

func (r *recovery) print() error {
	if r.a.output == "json" {
		if r.actions == nil {
			r.actions = []action{}
		}
		return r.a.printJSON(struct {
			Actions []action `json:"actions"`
		}{r.actions})
	}
	lines := make([]string, len(r.actions))
	for i, act := range r.actions {
		lines[i] = printable(act.Message)
	}
	return r.a.printLines(lines)
}

// outcome is the error of the run: each failure is said, the first gives the
// exit code.
func (r *recovery) outcome(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, id := range r.o.forget {
		if !slices.Contains(r.forgotten, id) {
			r.failures = append(r.failures, fmt.Errorf("--forget %s: no such request of a dead process", id))
		}
	}
	unconfirmed := 0
	for _, act := range r.actions {
		if act.Result == resultUnconfirmed {
			unconfirmed++
		}
	}
	if unconfirmed > 0 {
		r.failures = append(r.failures, fmt.Errorf("%d %w", unconfirmed, errUnconfirmed))
	}
	if len(r.failures) == 0 {
		return nil
	}
	for _, err := range r.failures[1:] {
		r.a.failf("%s", describe(err))
	}
	return r.failures[0]
}
