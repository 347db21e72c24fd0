package holder

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"sync"
	"time"

	"github.com/leasectl/leasectl/holder/socket"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
	"github.com/leasectl/leasectl/trap/process"
)

// A keeper is a background process that looks after one request of one handle:
// it renews the lease as long as an owner process lives and gives it back when
// that dies; and it does the late release that a version-1 proxy cannot do by
// itself. It never acts on another request than its own, so one that is left
// over does nothing to a handle's next lease.
//
// It sleeps until the next renewal, the end of the owner process, the late
// release, or a connection to its socket, which means that the handle has
// changed. The socket, named after the request, also tells that the keeper
// lives: unlike a pid, it cannot pass to another process, and means the same in every PID
// namespace.
type keeper struct {
	h       *Holder
	handle  lockfile.Handle
	request string
	record  lockfile.Record // as the handle last had it
	ended   <-chan error    // the owner process is gone; nil: there is none
	changed chan struct{}   // the handle may have
	renewed chan error      // the renewals are over
}

// Keep is the keeper of a handle's request: it runs until the lease is given
// back, by itself or others, or lost. ownerPID is the process whose life the
// lease is for; zero: none. ready is called when it watches.
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
	client, err := h.dialer.dial(ctx, h.dialer.proxyOf(record.Proxy))
	if err != nil {
		return err
	}
	if bare(record.Leases) {
		// The lease does not end by itself, and the owner does not notice if this
		// process is killed.
		entry := rand.Text()
		if err := h.journal.begin(ctx, intentOf(entry, lockfile.KindKeep, handle, record)); err != nil {
			return err
		}
		defer h.journal.settle(entry)
	}
	// If nobody reads this, the acquire was killed. The handle is there, so its
	// lease is the owner's all the same.
	ready()
	failpoint("keeper-ready")

	renewing, stopRenewing := context.WithCancel(ctx)
	var renewals sync.WaitGroup
	renewals.Go(func() { k.keepAlive(renewing, client, record) })
	due, err := k.wait(ctx)
	stopRenewing()
	renewals.Wait()
	if due && err == nil {
		err = k.giveBack(ctx, record)
	}
	return err
}

// holds tells whether a handle's record holds the keeper's request.
func (k *keeper) holds(r lockfile.Record) bool {
	return r.State == lockfile.StateHeld && r.RequestID == k.request
}

// mine reads the handle and tells whether the lease is still to be looked after. It is
// if the handle was removed: that does not mean the lease, as long as its owner lives. It
// is also if the handle cannot be read.
func (k *keeper) mine() bool {
	r, err := k.handle.Read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k.h.stillToGiveBack(k.record)
	case err != nil:
		k.h.report.Debugf("%v", err)
		return true
	}
	if k.holds(r) {
		k.record = r
	}
	return k.holds(r)
}

// wait blocks until the lease is to be given back, which it reports as due, or
// there is nothing left to look after.
func (k *keeper) wait(ctx context.Context) (due bool, err error) {
	for {
		if !k.mine() {
			return k.replaced(), nil
		}
		var late <-chan time.Time // nil: no late release, or it is the proxy's
		if !k.record.ReleaseAt.IsZero() && bare(k.record.Leases) {
			late = time.After(time.Until(k.record.ReleaseAt))
		}
		if late == nil && k.ended == nil {
			return false, nil // the late release was taken back
		}
		select {
		case <-late:
			return true, nil
		case err := <-k.ended:
			return err == nil, err
		case err := <-k.renewed:
			return false, err
		case <-k.changed:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// replaced tells whether the handle was removed, and another lease acquired into its
// path, so that nobody but the keeper can give the keeper's lease back.
func (k *keeper) replaced() bool {
	r, err := k.handle.Read()
	return err == nil && r.RequestID != k.request && !isOwed(r, k.request) && k.h.stillToGiveBack(k.record)
}

// keepAlive renews the lease until ctx ends or it is lost for good.
func (k *keeper) keepAlive(ctx context.Context, client *proxyclient.Client, r lockfile.Record) {
	if k.ended == nil || bare(r.Leases) {
		return
	}
	heartbeat := proxyclient.Heartbeat{
		Client: client,
		Leases: wireLeases(r.Leases),
		OnRenew: func(proxyclient.Renewal) {
			failpoint("keeper-renewed")
			k.look()
			// The connection would not last until the next renewal, and its end
			// would wake a process that has nothing else to do.
			client.Close()
		},
	}
	for {
		err := heartbeat.Run(ctx)
		if lost, ok := errors.AsType[*proxyclient.LostError](err); ok && len(lost.Lost) == 0 && ctx.Err() == nil {
			// The proxy was away for too long. It may still know the lease
			// when it is back, and the owner still lives.
			k.look()
			continue
		}
		k.renewed <- err
		return
	}
}

// look makes wait read the handle again.
func (k *keeper) look() {
	select {
	case k.changed <- struct{}{}:
	default: // it is about to
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

// acceptPause is how long a keeper waits after a connection that could not be accepted,
// as when a machine has too many open files: the next try would fail, too.
const acceptPause = time.Second

// hear makes wait look at each connection to l, until ctx ends. One that cannot be
// accepted means that the handle has changed as well.
func (k *keeper) hear(ctx context.Context, l net.Listener) {
	for ctx.Err() == nil {
		conn, err := l.Accept()
		k.look()
		if err != nil {
			proxyclient.Sleep(ctx, acceptPause)
			continue
		}
		conn.Close()
	}
}

// A keeper has more patience with its proxy than a release by hand, since nobody
// waits for it, but it must not keep others from the handle meanwhile: it tries
// for a short time under the handle's lock, and sleeps without it.
const (
	// keeperTry bounds one try. A proxy that works answers in much less, and a
	// release by hand that finds the lock taken has most of its own time left.
	keeperTry = 3 * time.Second
	// The pause doubles from the first, in which a release by hand gets its
	// turn, to the longest, after which a proxy that is back is noticed.
	keeperFirstPause   = time.Second
	keeperLongestPause = 5 * time.Second
	// keeperBareTime bounds all tries where leases do not end by themselves. A
	// version-1 proxy knows names only: the longer one is tried again, the
	// likelier it is another's lease now.
	keeperBareTime = 2 * time.Minute
)

// giveBack releases the lease, if it is still the keeper's, or owed by its
// handle. A proxy that does not answer is tried until the lease has ended by
// itself. Then the handle and the journal keep the release that failed.
func (k *keeper) giveBack(ctx context.Context, held lockfile.Record) error {
	failpoint("keeper-due")
	bound := keeperBareTime
	if !bare(held.Leases) {
		bound = max(held.TTL, keeperTry)
	}
	end := time.Now().Add(bound)
	k.beginRelease(ctx, held)
	failpoint("keeper-in-journal")
	pause := keeperFirstPause
	for {
		err := k.tryGiveBack(ctx)
		if err == nil {
			k.h.journal.settle(k.request) // if it was others who gave it back
			return nil
		}
		if errors.Is(err, proxyclient.ErrUnconfirmed) {
			return err // nor will a further try
		}
		if ctx.Err() != nil || time.Now().Add(pause).After(end) || !k.rest(ctx, pause) {
			k.h.journal.leave(k.request)
			return err
		}
		pause = min(2*pause, keeperLongestPause)
	}
}

// beginRelease makes one journal entry for all tries, with the id of what is
// owed. Should that fail, each try has an entry of its own.
func (k *keeper) beginRelease(ctx context.Context, held lockfile.Record) {
	ctx, cancel := context.WithTimeout(ctx, keeperTry)
	defer cancel()
	if err := k.h.journal.begin(ctx, intentOf(k.request, lockfile.KindRelease, k.handle, held)); err != nil {
		k.h.report.Debugf("%v", err)
	}
}

func (k *keeper) tryGiveBack(ctx context.Context) error {
	ctx, cancel := boundRelease(ctx, keeperTry)
	defer cancel()
	_, err := k.h.giveBackOwn(ctx, k.handle, func(r lockfile.Record) bool { return owes(r, k.request) }, k.record)
	return err
}

// rest blocks for d, or until somebody says that the handle has changed. It
// reports false if ctx ended before.
func (k *keeper) rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-k.changed:
	case <-ctx.Done():
		return false
	}
	return true
}
