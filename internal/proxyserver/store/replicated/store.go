package replicated

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// Load implements [store.Store]. No other server writes records while this server leads, so
// the pages fit together. If they do not, that is damage only if the database confirms that this
// server still leads: otherwise the next leader may have written meanwhile.
func (l *lead) Load() (pool.Snapshot, error) {
	snap, err := l.load()
	if errors.Is(err, store.ErrDamaged) {
		err = cmp.Or(l.retry(l.ended, l.rewrite), err)
	}
	return snap, err
}

func (l *lead) load() (pool.Snapshot, error) {
	var snap pool.Snapshot
	if l.metaVersion == 0 {
		l.meta = metaRecord{Format: format, ID: newNonce()}
	}
	l.table = newTable(l.Bounds)
	snap.Clock, snap.Generation = l.meta.Clock, l.meta.Generation
	for from, more := uint64(0), true; more; {
		var page []Record
		err := l.retry(l.ended, func(ctx context.Context) (err error) {
			page, more, err = l.Database.Read(ctx, from)
			return err
		})
		if err != nil {
			return snap, fmt.Errorf("load the store %s: %w", l.Words.Store, err)
		}
		for _, r := range page {
			if err := l.table.load(r, &snap); err != nil {
				return snap, l.damaged(err)
			}
			from = r.Number + 1
		}
	}
	if l.table.keys != l.meta.Keys {
		return snap, l.damaged(fmt.Errorf("it has %d records, and should have %d", l.table.keys, l.meta.Keys))
	}
	if l.metaVersion == 0 { // only now: a store that lost its meta stays as it is
		if err := l.write(nil); err != nil {
			return snap, fmt.Errorf("begin the store %s: %w", l.Words.Store, err)
		}
	}
	l.noteID(l.meta.ID)
	return snap, l.Holds()
}

func (l *lead) damaged(err error) error {
	return fmt.Errorf("store %s: %w: %w: restore %s from a backup, or %s to start without leases",
		l.Words.Store, store.ErrDamaged, err, l.Words.Database, l.Words.Erase)
}

// Commit implements [store.Store]. A batch that does not fit into one transaction becomes
// several, divided between its steps. A step that is too large itself is divided, too, but not
// between changes that belong together.
//
// Commit retries for as long as the lead holds. After an error the lead is over.
func (l *lead) Commit(b store.Batch) error {
	err := l.commit(b)
	if err != nil && !errors.Is(err, store.ErrNotLeader) {
		err = fmt.Errorf("%w: %w", store.ErrNotLeader, err)
	}
	if err != nil {
		l.end(err)
	}
	return err
}

func (l *lead) commit(b store.Batch) error {
	l.meta.Clock, l.meta.Generation = b.Clock, b.Generation
	from := 0
	for _, to := range append(slices.Clone(b.Steps), len(b.Changes)) {
		if err := l.collect(b.Changes[from:to]); err != nil {
			return err
		}
		from = to
	}
	return l.flush()
}

// collect adds a step to the table. If the step does not fit beside the changes that the table
// has, collect first writes those.
func (l *lead) collect(step []pool.Change) error {
	if !l.table.fits(len(step)) && !l.table.empty() {
		if err := l.flush(); err != nil {
			return err
		}
	}
	whole := l.table.fits(len(step))
	for i := range step {
		if !whole && !step[i].Kind.Continues() && !l.table.fits(together(step[i:])) && !l.table.empty() {
			if err := l.flush(); err != nil {
				return err
			}
		}
		if err := l.table.add(&step[i]); err != nil {
			return err
		}
	}
	return nil
}

// together returns how many changes, from the first of step on, belong together: see
// [pool.Kind.Continues].
func together(step []pool.Change) int {
	n := 1
	for n < len(step) && step[n].Kind.Continues() {
		n++
	}
	return n
}

// flush writes the changes that the table has collected: in one transaction, unless changes that
// belong together are too many for one.
func (l *lead) flush() error {
	writes := l.table.flush()
	for {
		var some []Record
		size, keys := 0, 0
		for _, w := range writes {
			if size += len(w.Value); len(some) == l.Bounds.Writes || len(some) > 0 && size > l.Bounds.Bytes+l.Bounds.Record/2 {
				break
			}
			keys += w.keys
			some = append(some, w.Record)
		}
		writes = writes[len(some):]
		l.meta.Keys += keys
		if err := l.write(some); err != nil || len(writes) == 0 {
			return err
		}
	}
}

// write does writes and writes meta in one transaction. The transaction is fenced: it does
// nothing unless this lead is the one in the database, and meta is as the last commit left it.
// Without the condition on meta, a delayed copy of an earlier transaction would do its writes
// again.
//
// A transaction whose answer was lost is sent again. If the second copy does nothing, meta
// tells whether the first was carried out.
func (l *lead) write(writes []Record) error {
	l.commits++
	l.meta.Commit = l.nonce + "." + strconv.Itoa(l.commits)
	meta, err := json.Marshal(l.meta)
	if err != nil {
		return err
	}
	c := Commit{Leader: l.value, Version: l.metaVersion, Meta: meta, Writes: writes}
	var version int64
	var done bool
	err = l.retry(l.ended, func(ctx context.Context) (err error) {
		if err := l.Holds(); err != nil {
			return err
		}
		version, done, err = l.Database.Commit(ctx, &c)
		return err
	})
	if err == nil && !done {
		version, err = l.carriedOut(meta)
	}
	if err != nil {
		return fmt.Errorf("commit to %s: %w", l.Words.Store, err)
	}
	l.metaVersion = version
	l.newest.note(version)
	return nil
}

// carriedOut returns the version of meta if its value is that of the last commit, of which a
// second copy did nothing. If so, the first copy was carried out. What was read may not be durable
// yet, so carriedOut returns after a further write.
func (l *lead) carriedOut(meta []byte) (version int64, err error) {
	var s State
	err = l.retry(l.ended, func(ctx context.Context) (err error) {
		s, err = l.Database.Look(ctx)
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case !bytes.Equal(s.Leader.Value, l.value):
		return 0, errDeposed
	case bytes.Equal(s.Meta.Value, meta):
		return s.Meta.Version, l.retry(l.ended, l.rewrite)
	}
	if err := l.newest.check(l.client, l.newest.version.Load(), s.Meta.Version); err != nil {
		return 0, err
	}
	return 0, l.damaged(errors.New("its meta was changed by another than the leader"))
}
