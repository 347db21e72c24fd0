package keeper

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	"github.com/leasectl/leasectl/internal/process"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Keeper is a background process that looks after one request of one handle. It renews the
// lease as long as an owner process lives, and gives the lease back when that process ends. It
// also does the late release that a version-1 proxy cannot do by itself. It acts on its own
// request only, so a leftover keeper does nothing to the next lease of the handle.
//
// It sleeps until the next renewal, the end of the owner process, the late release, or a
// connection to its socket, which means that the handle has changed. The socket is named after
// the request, and also shows that the keeper lives. Unlike a pid, the socket cannot pass to
// another process, and it means the same in every PID namespace.
type Keeper struct {
	Keepers  *Keepers
	Journal  *lockfile.Entries
	Handle   lockfile.Handle
	Request  string
	OwnerPID int // the process for whose life the lease is kept; zero: none
	// Release gives back the lease of a record that the handle had, if same allows that for the record
	// that it has now, and even if the handle is gone.
	Release func(ctx context.Context, handle lockfile.Handle, same func(lockfile.Record) bool, r lockfile.Record) (released []string, err error)

	home    os.FileInfo     // directory of its socket
	record  lockfile.Record // as the handle last had it
	ended   <-chan error    // receives when the owner process is gone; nil: there is none
	changed chan struct{}   // receives when the handle may have changed
	renewed chan error      // receives when the renewals are over
}

// Run keeps the lease. It blocks until the lease is lost, or was given back by itself or by others, or
// asked ends: then the user and recover hear the same as of a keeper that was killed. It
// calls ready once it watches the owner process and the handle. It is an error if the handle does not
// hold the request.
func (k *Keeper) Run(asked context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(asked)
	defer cancel()
	k.changed, k.renewed = make(chan struct{}, 1), make(chan error, 1)
	if k.OwnerPID != 0 {
		k.ended = process.WatchExit(ctx, k.OwnerPID)
	}
	stopListening, err := k.Keepers.Listen(ctx, k.Request, k.changed)
	if err != nil {
		return err
	}
	defer func() {
		if asked.Err() == nil { // else its socket stays, as that of a killed keeper: it has not done its work
			stopListening()
		}
	}()
	if k.home, err = os.Lstat(k.Keepers.dir()); err != nil {
		return err
	}
	record, err := k.Handle.Read()
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case !k.holds(record):
		return fmt.Errorf("handle %s does not hold request %s", k.Handle.Path(), k.Request)
	}
	k.record = record
	proxy, err := k.Keepers.Dialer.ProxyOf(record)
	if err != nil {
		return err
	}
	p, err := k.Keepers.Dialer.Dial(ctx, proxy)
	if err != nil {
		return err
	}
	if record.Lasts() {
		// The lease does not end by itself, and the owner process does not notice a kill of
		// this process.
		entry := rand.Text()
		if err := k.Journal.Begin(ctx, k.Keepers.Dialer.Own(record).Intent(entry, lockfile.KindKeep, k.Handle.Path())); err != nil {
			return err
		}
		defer func() {
			if asked.Err() == nil {
				k.Journal.Settle(entry)
			}
		}()
	}
	// If nobody hears this, the acquire was killed. The handle exists, so its lease belongs to
	// the owner process all the same.
	ready()
	failpoint.Here("keeper-ready")

	due, err := k.watch(ctx, p.Client)
	if due {
		err = k.release(ctx)
	}
	return err
}

// watch is wait, and renews the lease meanwhile.
func (k *Keeper) watch(ctx context.Context, client *proxyclient.Client) (due bool, err error) {
	renewing, stop := context.WithCancel(ctx)
	var renewals sync.WaitGroup
	defer renewals.Wait()
	defer stop()
	record := k.record // wait reads it again
	renewals.Go(func() { k.keepAlive(renewing, client, record) })
	return k.wait(ctx)
}

// dismissed is [Keepers.dismissed].
func (k *Keeper) dismissed() bool { return k.Keepers.dismissed(k.Request, k.home) }

// holds tells whether a handle's record holds the keeper's request, or waits to replace its leases.
func (k *Keeper) holds(r lockfile.Record) bool {
	return r.State == lockfile.HandleHeld && r.RequestID == k.Request || r.WaitsInPlaceOf(k.record)
}

// stillKept reads the handle and tells whether the keeper still has a lease to look after: the
// handle holds it, cannot be read, or was removed although nobody gave the lease back. It waits for the end of a release that is
// under way, since the proxy may refuse it.
func (k *Keeper) stillKept(ctx context.Context) bool {
	if k.dismissed() {
		return false
	}
	r, err := k.Handle.Read()
	if err == nil && r.State == lockfile.HandleReleasing && r.RequestID == k.Request {
		ctx, cancel := cleanup.Context(ctx)
		defer cancel()
		err = k.Handle.Update(ctx, func(tx *lockfile.Tx) error { r = tx.Record; return nil })
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lockfile.Certain(k.record.Leases)
	case err != nil:
		k.Keepers.Debugf("%v", err)
		return true
	}
	if k.holds(r) && r.RequestID == k.Request {
		k.record = r
	}
	return k.holds(r)
}

// wait blocks until the lease is due to be given back, or nothing is left to look after.
func (k *Keeper) wait(ctx context.Context) (over bool, err error) {
	var due struct { // the late release
		at   time.Time // as the record has it
		when proxyclient.Instant
	}
	for {
		if !k.stillKept(ctx) {
			return k.orphaned(), nil
		}
		var late <-chan time.Time // nil: there is no late release, or the proxy does it
		if !k.record.ReleaseAt.IsZero() && k.record.Lasts() {
			if !k.record.ReleaseAt.Equal(due.at) { // read once: the time of day may be set
				due.at, due.when = k.record.ReleaseAt, proxyclient.Now().Add(time.Until(k.record.ReleaseAt))
			}
			late = time.After(proxyclient.Until(due.when))
		}
		if late == nil && k.ended == nil {
			return false, nil // the late release was taken back
		}
		select {
		case <-late:
			return true, nil
		case err := <-k.ended:
			return err == nil && !k.dismissed(), err
		case err := <-k.renewed:
			return false, err
		case <-k.changed:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// orphaned tells whether the handle was removed and another lease acquired into its path: then
// only the keeper can give its own lease back.
func (k *Keeper) orphaned() bool {
	r, err := k.Handle.Read()
	return err == nil && r.RequestID != k.Request && lockfile.Certain(k.record.Leases) && !k.dismissed()
}

// keepAlive renews the lease until ctx ends or it is lost for good.
func (k *Keeper) keepAlive(ctx context.Context, client *proxyclient.Client, r lockfile.Record) {
	if k.ended == nil || r.Lasts() {
		return
	}
	heartbeat := proxyclient.Heartbeat{
		Client: client,
		Leases: lockfile.Wire(r.Leases),
		TTL:    r.TTL,
		OnRenew: func(proxyclient.Renewal) {
			failpoint.Here("keeper-renewed")
			k.Keepers.touch(k.Request)
			tell(k.changed)
			// The connection would not last until the next renewal. Its end would wake this
			// process, which has nothing else to do.
			client.Close()
		},
	}
	for {
		err := heartbeat.Run(ctx)
		// After an outage the proxy may still know the lease, and a loss may be of one of several: the owner
		// process still lives.
		lost, ok := errors.AsType[*proxyclient.LostError](err)
		if !ok || ctx.Err() != nil || heartbeat.Forget(ctx, lost) != nil || len(heartbeat.Leases) == 0 {
			k.renewed <- err
			return
		}
		tell(k.changed)
	}
}

// A keeper has more patience with its proxy than a release by hand, since nobody waits for the
// keeper. But it must not keep others from the handle meanwhile: it tries for a short time
// under the handle's lock, and sleeps without the lock.
const (
	// tryTime bounds one try. A proxy that works answers in much less, and a
	// release by hand that finds the lock taken has most of its own time left.
	tryTime = 3 * time.Second
	// The pause doubles from the first to the longest. In the first a release by hand gets its
	// turn; the longest bounds how late the keeper notices that the proxy is back.
	firstPause   = time.Second
	longestPause = 5 * time.Second
	// lastingTime bounds all tries for a lease of a version-1 proxy, which does not end by
	// itself.
	lastingTime = 2 * time.Minute
)

// release releases the lease, unless it was given back before. After a failure it tries again
// until the lease has ended by itself, or for lastingTime. A release that still fails
// stays in the handle and in the journal.
func (k *Keeper) release(ctx context.Context) error {
	failpoint.Here("keeper-due")
	bound := lastingTime
	if !k.record.Lasts() {
		bound = max(k.record.TTL, tryTime)
	}
	end := time.Now().Add(bound)
	k.beginRelease(ctx)
	failpoint.Here("keeper-in-journal")
	pause := firstPause
	for {
		err := k.tryRelease(ctx)
		if err == nil {
			k.Journal.Settle(k.Request) // in case others gave it back
			return nil
		}
		hopeless := errors.Is(err, proxyclient.ErrUnconfirmed) // a further try would not be confirmed either
		if hopeless || ctx.Err() != nil || time.Now().Add(pause).After(end) || !k.rest(ctx, pause) {
			k.Journal.Leave(k.Request)
			return err
		}
		pause = min(2*pause, longestPause)
	}
}

// beginRelease makes one journal entry for all tries, under the id of the request. Without it,
// each try makes an entry of its own.
func (k *Keeper) beginRelease(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	if err := k.Journal.Begin(ctx, k.Keepers.Dialer.Own(k.record).Intent(k.Request, lockfile.KindRelease, k.Handle.Path())); err != nil {
		k.Keepers.Debugf("%v", err)
	}
}

func (k *Keeper) tryRelease(ctx context.Context) error {
	ctx, cancel := cleanup.Within(ctx, tryTime)
	defer cancel()
	_, err := k.Release(ctx, k.Handle, func(r lockfile.Record) bool { return r.RequestID == k.Request }, k.record)
	return err
}

// rest blocks for d, or until somebody says that the handle has changed. It returns false if
// ctx ended before.
func (k *Keeper) rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-k.changed:
	case <-ctx.Done():
		return false
	}
	return true
}
