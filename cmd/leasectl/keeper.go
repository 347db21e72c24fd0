package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
	"github.com/leasectl/leasectl/trap"
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
// lives: unlike a pid, it can neither be another process's by now nor mean
// another one in another PID namespace.

type keeperOptions struct {
	handle  string
	request string
	owner   int
}

func newKeeperCommand(a *app) *cobra.Command {
	o := new(keeperOptions)
	cmd := &cobra.Command{
		Use:    "keeper",
		Short:  "look after a lease in the background; started by acquire and release",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := a.keeper(cmd.Context(), o)
			if err != nil {
				trap.Ready(err) // if nobody was told that it is ready
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.handle, "handle", "", "")
	cmd.Flags().StringVar(&o.request, "request", "", "")
	bindOwnerPID(cmd.Flags(), &o.owner, "")
	for _, name := range []string{"request", "owner-pid"} {
		cmd.Flags().Lookup(name).Hidden = true // and not from the environment
	}
	return cmd
}

// keeping is a keeper at work.
type keeping struct {
	a       *app
	handle  lockfile.Handle
	request string
	ended   <-chan error  // the owner process is gone; nil: there is none
	changed chan struct{} // the handle may have
	beat    chan error    // the heartbeat is over
}

// keeper runs until its lease is given back, by itself or others, or lost.
func (a *app) keeper(ctx context.Context, o *keeperOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	handle, err := openHandle(o.handle)
	if err != nil {
		return err
	}
	k := &keeping{a: a, handle: handle, request: o.request, changed: make(chan struct{}, 1), beat: make(chan error, 1)}
	if o.owner != 0 {
		k.ended = trap.WatchExit(ctx, o.owner)
	}
	stopListening, err := k.listen(ctx)
	if err != nil {
		return err
	}
	defer stopListening()
	record, ok := k.mine()
	if !ok {
		return errSuperseded
	}
	client, err := a.dial(ctx, a.proxyOf(record))
	if err != nil {
		return err
	}
	// If nobody reads that any more, an acquire was killed. The handle is there,
	// so its lease is the owner's all the same.
	trap.Ready(nil)
	failpoint("keeper-ready")

	beating, stopBeating := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		k.renew(beating, client, record)
	}()
	due, err := k.wait(ctx)
	stopBeating()
	<-stopped
	if due && err == nil {
		err = k.giveBack(ctx, record)
	}
	return err
}

// mine reads the handle and tells whether it still holds the keeper's request.
func (k *keeping) mine() (lockfile.Record, bool) {
	r, err := k.handle.Read()
	return r, err == nil && r.State == lockfile.StateHeld && r.RequestID == k.request
}

// wait blocks until the lease is to be given back, which it reports as due, or
// there is nothing left to look after.
func (k *keeping) wait(ctx context.Context) (due bool, err error) {
	for {
		r, ok := k.mine()
		if !ok {
			return false, nil
		}
		due := !r.ReleaseAt.IsZero() && versionOneLeases(r)
		if !due && k.ended == nil {
			return false, nil // the late release was taken back, or is the proxy's
		}
		late := time.NewTimer(time.Until(r.ReleaseAt))
		if !due {
			late.Stop()
		}
		over, due, err := k.event(ctx, late.C)
		late.Stop()
		if over {
			return due, err
		}
	}
}

// event blocks until something happens, and tells whether that is the end.
func (k *keeping) event(ctx context.Context, late <-chan time.Time) (over, due bool, err error) {
	select {
	case <-late:
		return true, true, nil
	case err := <-k.ended:
		return true, err == nil, err
	case err := <-k.beat:
		return true, false, err
	case <-k.changed:
		return false, false, nil
	case <-ctx.Done():
		return true, false, context.Cause(ctx)
	}
}

// versionOneLeases tells whether a record's leases are from a proxy that
// neither renews nor releases late.
func versionOneLeases(r lockfile.Record) bool { return bare(lockfile.Owed{Leases: r.Leases}) }

// renew keeps the lease until ctx ends or it is lost for good.
func (k *keeping) renew(ctx context.Context, client *proxyclient.Client, r lockfile.Record) {
	if k.ended == nil || versionOneLeases(r) {
		return
	}
	beat := proxyclient.Heartbeat{
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
		err := beat.Run(ctx)
		if lost, ok := errors.AsType[*proxyclient.LostError](err); ok && len(lost.Lost) == 0 && ctx.Err() == nil {
			// The proxy was away for too long. It may still know the lease
			// when it is back, and the owner still lives.
			k.look()
			continue
		}
		k.beat <- err
		return
	}
}

// look makes wait read the handle again.
func (k *keeping) look() {
	select {
	case k.changed <- struct{}{}:
	default: // it is about to
	}
}

// listen opens the keeper's socket; each connection means that the handle has
// changed.
func (k *keeping) listen(ctx context.Context) (stop func(), err error) {
	l, closeSocket, err := listenSocket(ctx, keeperSocket(k.request))
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
			k.look()
		}
	}()
	return func() { closeSocket(); <-done }, nil
}
