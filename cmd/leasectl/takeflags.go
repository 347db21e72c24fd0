package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/pool"
)

// takeOptions are the flags of what takes leases: acquire, reacquire, exec.
type takeOptions struct {
	typ          string
	count        int
	handle       string
	scope        string
	jitter       time.Duration
	waitTimeout  time.Duration
	ttl          time.Duration
	releaseAfter time.Duration
	optional     bool
}

// Bounds of what may be asked for.
const (
	maxTime        = 7 * 24 * time.Hour
	minTTL         = 10 * time.Second // below it a renewal every third leaves no room for a retry
	defaultWait    = time.Hour
	defaultExecTTL = 5 * time.Minute // of a lease that somebody renews
)

func (o *takeOptions) bind(flags *pflag.FlagSet) {
	flags.Var(typeValue(&o.typ), "type", "type of the lease: which pool it comes from")
	flags.Var(intValue(&o.count, 1, 1, pool.MaxCapacity), "count", "how many leases, all together or none")
	flags.StringVar(&o.handle, "handle", "", "path of the handle to write (default: a new one in $LEASECTL_STATE_DIR)")
	flags.Var(choiceValue(&o.scope, "step", "step", "test"), "scope", "step, or test: also list the names in $SHARED_DIR/leases for later steps")
	flags.Var(durationValue(&o.jitter, 0, 0, maxTime), "jitter", "wait a random time of up to this before asking")
	flags.Var(durationValue(&o.waitTimeout, defaultWait, 0, maxTime), "wait-timeout", "how long to queue; 0 asks once")
	flags.Var(durationValue(&o.ttl, 0, minTTL, maxTime), "ttl", "how long the lease lasts after its last renewal (default: the pool's)")
	flags.Var(durationValue(&o.releaseAfter, 0, time.Second, maxTime), "release-after", "release the lease this long after it was acquired, whatever happens")
	flags.BoolVar(&o.optional, "optional", false, "go on without a lease if none is to be had, and say so")
}

func (o *takeOptions) check() error {
	if o.typ == "" {
		return usagef("no --type: name the type of the lease to take")
	}
	return nil
}

// request is what the flags ask for, into a handle that was opened for them.
func (o *takeOptions) request(ctx context.Context, handle holder.Handle) (holder.Request, error) {
	r := holder.Request{
		Type:        o.typ,
		Count:       o.count,
		Handle:      handle,
		Private:     o.handle == "",
		Jitter:      o.jitter,
		WaitTimeout: o.waitTimeout,
		TTL:         o.ttl,
	}
	var err error
	if o.scope == "test" {
		r.SharedList, err = sharedList(ctx)
	}
	return r, err
}

// sharedList is the list of the names that outlive the step.
func sharedList(ctx context.Context) (holder.List, error) {
	return holder.SharedList(ctx, os.Getenv("SHARED_DIR"))
}
