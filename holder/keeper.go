package holder

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"sync"
	"time"

	"github.com/leasectl/leasectl/holder/cleanup"
	"github.com/leasectl/leasectl/holder/failpoint"
	"github.com/leasectl/leasectl/holder/socket"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
	"github.com/leasectl/leasectl/trap/process"
)

// A keeper is a background process that looks after one request of one handle. It renews the
// lease as long as an owner process lives, and gives the lease back when that process ends. It
// also does the late release that a version-1 proxy cannot do by itself. It acts on its own
// request only, so a leftover keeper does nothing to the next lease of the handle.
//
// It sleeps until the next renewal, the end of the owner process, the late release, or a
// connection to its socket, which means that the handle has changed. The socket is named after
// the request, and also shows that the keeper lives. Unlike a pid, the socket cannot pass to
// another process, and it means the same in every PID namespace.
type keeper struct {
	h       *Holder
	handle  lockfile.Handle
	request string
	record  lockfile.Record // as the handle last had it
	ended   <-chan error    // receives when the owner process is gone; nil: there is none
	changed chan struct{}   // receives when the handle may have changed
	renewed chan error      // receives when the renewals are over
}

// Keep is the keeper of a handle's request. It blocks until the lease is lost, or was given
// back by itself or by others. ownerPID is the process for whose life the lease is kept; zero:
// none. It calls ready once it watches that process and the handle. The error is [ErrReplaced]
// if the handle does not hold the request.
func (h *Holder) Keep(ctx context.Context, handle lockfile.Handle, request string, ownerPID int, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &keeper{h: h, handle: handle, request: request, changed: make(chan struct{}, 1), renewed: make(chan error, 1)}
	if ownerPID != 0 {
		k.ended = process.WatchExit(ctx, ownerPID)
	}
	stopListening, err := k.listen(ctx)
	if err != nil {
		return err
	}
	defer stopListening()
	record, err := handle.Read()
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case !k.holds(record):
		return ErrReplaced
	}
	k.record = record
	p, err := h.Dialer.Dial(ctx, h.Dialer.ProxyOf(record.Proxy))
	if err != nil {
		return err
	}
	if record.Lasts() {
		// The lease does not end by itself, and the owner process does not notice a kill of
		// this process.
		entry := rand.Text()
		if err := h.journal.Begin(ctx, record.Intent(entry, lockfile.KindKeep, handle.Path())); err != nil {
			return err
		}
		defer h.journal.Settle(entry)
	}
	// If nobody hears this, the acquire was killed. The handle exists, so its lease belongs to
	// the owner process all the same.
	ready()
	failpoint.Here("keeper-ready")

	due, err := k.watch(ctx, p.Client)
	if due {
		err = k.giveBack(ctx)
	}
	return err
}

// watch is wait, and renews the lease meanwhile.
func (k *keeper) watch(ctx context.Context, client *proxyclient.Client) (due bool, err error) {
	renewing, stop := context.WithCancel(ctx)
	var renewals sync.WaitGroup
	defer renewals.Wait()
	defer stop()
	record := k.record // wait reads it again
	renewals.Go(func() { k.keepAlive(renewing, client, record) })
	return k.wait(ctx)
}

// holds tells whether a handle's record holds the keeper's request, or waits to replace its leases.
func (k *keeper) holds(r lockfile.Record) bool {
	return r.State == lockfile.StateHeld && r.RequestID == k.request || r.WaitsInPlaceOf(k.record)
}

// stillKept reads the handle and tells whether the keeper still has a lease to look after: the
// handle holds it, cannot be read, or was removed although nobody gave the lease back.
func (k *keeper) stillKept() bool {
	if k.h.keepers.dismissed(k.request) {
		return false
	}
	r, err := k.handle.Read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lockfile.Certain(k.record.Leases)
	case err != nil:
		k.h.report.Debugf("%v", err)
		return true
	}
	if k.holds(r) && r.RequestID == k.request {
		k.record = r
	}
	return k.holds(r)
}

// wait blocks until the lease is due to be given back, or nothing is left to look after.
func (k *keeper) wait(ctx context.Context) (due bool, err error) {
	for {
		if !k.stillKept() {
			return k.orphaned(), nil
		}
		var late <-chan time.Time // nil: there is no late release, or the proxy does it
		if !k.record.ReleaseAt.IsZero() && k.record.Lasts() {
			late = time.After(time.Until(k.record.ReleaseAt))
		}
		if late == nil && k.ended == nil {
			return false, nil // the late release was taken back
		}
		select {
		case <-late:
			return true, nil
		case err := <-k.ended:
			return err == nil && !k.h.keepers.dismissed(k.request), err
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
func (k *keeper) orphaned() bool {
	r, err := k.handle.Read()
	return err == nil && r.RequestID != k.request && lockfile.Certain(k.record.Leases) && !k.h.keepers.dismissed(k.request)
}

// keepAlive renews the lease until ctx ends or it is lost for good.
func (k *keeper) keepAlive(ctx context.Context, client *proxyclient.Client, r lockfile.Record) {
	if k.ended == nil || r.Lasts() {
		return
	}
	heartbeat := proxyclient.Heartbeat{
		Client: client,
		Leases: lockfile.Wire(r.Leases),
		OnRenew: func(proxyclient.Renewal) {
			failpoint.Here("keeper-renewed")
			k.h.keepers.touch(k.request)
			k.wake()
			// The connection would not last until the next renewal. Its end would wake this
			// process, which has nothing else to do.
			client.Close()
		},
	}
	for {
		err := heartbeat.Run(ctx)
		if lost, ok := errors.AsType[*proxyclient.LostError](err); ok && len(lost.Lost) == 0 && ctx.Err() == nil {
			// The proxy was away for too long. It may still know the lease when it is back, and
			// the owner process still lives.
			k.wake()
			continue
		}
		k.renewed <- err
		return
	}
}

// wake makes wait read the handle again.
func (k *keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default: // wait is about to read it
	}
}

// listen opens the keeper's socket; each connection means that the handle has
// changed.
func (k *keeper) listen(ctx context.Context) (stop func(), err error) {
	l, closeSocket, err := socket.Listen(ctx, k.h.keepers.socket(k.request))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.hear(ctx, l)
	}()
	return func() { cancel(); closeSocket(); <-done }, nil
}

// acceptPause is the pause after a connection that could not be accepted, as when the machine
// has too many open files: an immediate next try would fail, too.
const acceptPause = time.Second

// hearTime bounds how long a connection stays open: whoever dismisses the keeper removes its socket
// before it closes the connection.
const hearTime = time.Second

// hear wakes wait at the end of each connection to l, even of one that cannot be accepted, until
// ctx ends.
func (k *keeper) hear(ctx context.Context, l net.Listener) {
	for ctx.Err() == nil {
		conn, err := l.Accept()
		if err != nil {
			k.wake()
			proxyclient.Sleep(ctx, acceptPause)
			continue
		}
		conn.SetReadDeadline(time.Now().Add(hearTime))
		conn.Read(make([]byte, 1))
		conn.Close()
		k.wake()
	}
}

// A keeper has more patience with its proxy than a release by hand, since nobody waits for the
// keeper. But it must not keep others from the handle meanwhile: it tries for a short time
// under the handle's lock, and sleeps without the lock.
const (
	// keeperTry bounds one try. A proxy that works answers in much less, and a
	// release by hand that finds the lock taken has most of its own time left.
	keeperTry = 3 * time.Second
	// The pause doubles from the first to the longest. In the first a release by hand gets its
	// turn; the longest bounds how late the keeper notices that the proxy is back.
	keeperFirstPause   = time.Second
	keeperLongestPause = 5 * time.Second
	// keeperLastingTime bounds all tries for a lease of a version-1 proxy, which does not end by
	// itself.
	keeperLastingTime = 2 * time.Minute
)

// giveBack releases the lease, unless it was given back before. After a failure it tries again
// until the lease has ended by itself, or for keeperLastingTime. A release that still fails
// stays in the handle and in the journal.
func (k *keeper) giveBack(ctx context.Context) error {
	failpoint.Here("keeper-due")
	bound := keeperLastingTime
	if !k.record.Lasts() {
		bound = max(k.record.TTL, keeperTry)
	}
	end := time.Now().Add(bound)
	k.beginRelease(ctx)
	failpoint.Here("keeper-in-journal")
	pause := keeperFirstPause
	for {
		err := k.tryGiveBack(ctx)
		if err == nil {
			k.h.journal.Settle(k.request) // in case others gave it back
			return nil
		}
		if errors.Is(err, proxyclient.ErrUnconfirmed) {
			return err // a further try would not be confirmed either
		}
		if ctx.Err() != nil || time.Now().Add(pause).After(end) || !k.rest(ctx, pause) {
			k.h.journal.Leave(k.request)
			return err
		}
		pause = min(2*pause, keeperLongestPause)
	}
}

// beginRelease makes one journal entry for all tries, under the id of the request. Without it,
// each try makes an entry of its own.
func (k *keeper) beginRelease(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, keeperTry)
	defer cancel()
	if err := k.h.journal.Begin(ctx, k.record.Intent(k.request, lockfile.KindRelease, k.handle.Path())); err != nil {
		k.h.report.Debugf("%v", err)
	}
}

func (k *keeper) tryGiveBack(ctx context.Context) error {
	ctx, cancel := cleanup.Within(ctx, keeperTry)
	defer cancel()
	_, err := k.h.giveBackOwn(ctx, k.handle, func(r lockfile.Record) bool { return r.RequestID == k.request }, k.record)
	return err
}

// rest blocks for d, or until somebody says that the handle has changed. It returns false if
// ctx ended before.
func (k *keeper) rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-k.changed:
	case <-ctx.Done():
		return false
	}
	return true
}
