package holder

import (
	"context"
	"slices"
	"time"

	"github.com/leasectl/leasectl/lockfile"
)

// leftoverAge is the age at which a file that belongs to no handle is removed: no operation
// takes a day.
const leftoverAge = 24 * time.Hour

// Action is something that [Holder.Recover] did or found.
type Action struct {
	Result  Result    `json:"result"`
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

// Result is the fate of a lease, request or file that a killed run left.
type Result string

// Results of actions.
const (
	Released    Result = "released"
	Withdrawn   Result = "withdrawn"
	Kept        Result = "kept"
	Unconfirmed Result = "unconfirmed" // it is not known whether the lease is held; the entry stays
	Forgotten   Result = "forgotten"
	Removed     Result = "removed" // a file
)

// recovery is one Recover.
type recovery struct {
	settling
	forget []string

	actions       []Action
	failures      []error
	outages       map[string]error // of proxies that did not answer, or with errors only: each is asked once
	failedHandles []string         // paths of the handles that a failure is about
}

func (r *recovery) fail(err error) {
	if err != nil {
		r.failures = append(r.failures, err)
	}
}

// failHandle is fail for the first failure of a handle. It drops further ones.
func (r *recovery) failHandle(handle string, err error) {
	if err != nil && !slices.Contains(r.failedHandles, handle) {
		r.failedHandles = append(r.failedHandles, handle)
		r.fail(err)
	}
}

func (r *recovery) has(is func(Action) bool) bool { return slices.ContainsFunc(r.actions, is) }

func (r *recovery) removed(path, what string) {
	r.actions = append(r.actions, Action{Result: Removed, Path: path, Message: "removed " + what})
}

// noteOutage notes an err which says that a recorded proxy, or the proxy that is asked in its
// place, did not answer, or answered only with errors.
func (r *recovery) noteOutage(proxy string, err error) {
	if out := outageOf(err); out != nil {
		r.outages[r.proxyOf(proxy)] = out
	}
}

// outage returns why the proxy that is asked in the place of a recorded one must not be asked
// again; nil if it was not asked yet, or answered.
func (r *recovery) outage(proxy string) error { return r.outages[r.proxyOf(proxy)] }

// forgetOwed drops from a handle the owed leases that which selects. dead is the request of a
// dead exec, whose lease counts as owed; "" is none.
func (r *recovery) forgetOwed(ctx context.Context, handle lockfile.Handle, dead string, which func(lockfile.Owed) bool) error {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	return handle.Update(ctx, func(tx *lockfile.Tx) error {
		if dead != "" && tx.RequestID == dead {
			tx.Record = releasingRecord(tx.Record, owedBy(tx.Record))
		}
		if !slices.ContainsFunc(tx.Owed, which) {
			return nil
		}
		if tx.Owed = slices.DeleteFunc(tx.Owed, which); len(tx.Owed) == 0 && tx.State == lockfile.StateReleasing {
			tx.Record = lockfile.Record{}
		}
		return nil
	})
}
