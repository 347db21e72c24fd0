package etcd

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
	"github.com/leasectl/leasectl/internal/suspend"
)

const (
	// compactEvery is how often the leader drops the history of keys. Until then etcd
	// keeps all values that a key ever had.
	compactEvery = 5 * time.Minute
	// measureEvery is how often the leader asks how large the database is.
	measureEvery = 30 * time.Second
	// defaultQuota is the size in bytes at which etcd takes no more writes, unless its
	// operator has set another one. etcd reports its quota from version 3.6 on.
	defaultQuota = 2 << 30
)

// upkeep is the work of a leader beside its leases: it compacts etcd's history, and measures
// the database. Nothing depends on it, so no error of it ends the lead.
type upkeep struct {
	*database
	log           *slog.Logger
	ttl           time.Duration
	noCompact     bool
	mayNotMeasure bool                           // it was logged
	size          atomic.Pointer[statusResponse] // as last measured
}

func newUpkeep(d *database, o Options) *upkeep {
	u := &upkeep{database: d, log: o.Log, ttl: o.TTL, noCompact: o.NoCompact}
	u.size.Store(&statusResponse{})
	return u
}

// run works until the lead is over.
func (u *upkeep) run(lead context.Context) {
	u.measure(lead)
	revision := u.compact(lead, 0)
	measured, compacted := suspend.SinceBoot(), suspend.SinceBoot()
	for replicated.Sleep(lead, u.ttl/4) == nil {
		now := suspend.SinceBoot()
		if now-measured >= measureEvery {
			measured = now
			u.measure(lead)
		}
		if now-compacted >= compactEvery {
			compacted = now
			revision = u.compact(lead, revision)
		}
	}
}

// compact drops the history before revision, and returns the present revision for the next
// call. So each call keeps the history since the previous call. Revision 0 stands for the
// present one.
func (u *upkeep) compact(ctx context.Context, revision int64) (present int64) {
	if u.noCompact {
		return revision
	}
	err := replicated.Within(ctx, u.ttl, func(ctx context.Context) error {
		var reply rangeResponse
		if err := u.call(ctx, "/v3/kv/range", rangeRequest{Key: u.metaKey()}, &reply); err != nil {
			return err
		}
		present = reply.Header.Revision
		revision = cmp.Or(revision, present)
		return u.call(ctx, "/v3/kv/compaction", compactRequest{Revision: revision}, &struct{}{})
	})
	switch {
	case err == nil || compacted(err) || ctx.Err() != nil:
	case forbidden(err) && present != 0: // our user may read, but not compact
		u.log.Warn("etcd's history is not compacted, so its database grows: this etcd lets only users with the role root compact it: "+
			"let etcd compact by itself (--auto-compaction-retention) and use --no-compact, or give our user that role (etcdctl user grant-role USER root)", "error", err)
	default:
		u.log.Warn("etcd's history could not be compacted: its database grows", "error", err)
	}
	return max(present, revision)
}

// measure notes the size of the database, and warns before it is full.
func (u *upkeep) measure(ctx context.Context) {
	var s statusResponse
	err := replicated.Within(ctx, u.ttl/4, func(ctx context.Context) error {
		return u.call(ctx, "/v3/maintenance/status", struct{}{}, &s)
	})
	if forbidden(err) && !u.mayNotMeasure {
		u.mayNotMeasure = true
		u.log.Warn("the size of etcd's database is not known, so nothing warns before it is full: this etcd shows it only to users with the role root: "+
			"use a later version of etcd, watch it by other means (etcdctl endpoint status), or give our user that role (etcdctl user grant-role USER root)", "error", err)
	}
	if err != nil {
		return // the next commit reports any other trouble
	}
	u.size.Store(&s)
	quota := s.Quota
	if quota == 0 {
		quota = defaultQuota
	}
	if s.Size > quota/4*3 {
		u.log.Warn("no space soon: etcd takes no writes when its database has reached its quota: defragment it, or raise --quota-backend-bytes of etcd",
			"bytes", s.Size, "in_use", s.InUse, "quota", quota)
	}
}
