package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// takeOptions are how acquire, reacquire and exec take leases. All but typeless, owner and list are flags; for Overcommit
// see bindOvercommit, for Coalesce and Variant bindCoalesce.
type takeOptions struct {
	leaseapi.Ask
	typeless     bool // without a type take no lease, and do not fail
	handle       string
	scope        string
	owner        string      // as typed, or of the lease that reacquire replaces; "": that of the run
	list         holder.List // of the lease that reacquire replaces; "" is none
	jitter       time.Duration
	waitTimeout  time.Duration
	ttl          time.Duration
	releaseAfter time.Duration
	optional     bool
}

// Bounds and defaults of flags.
const (
	maxTime        = 7 * 24 * time.Hour
	minTTL         = 10 * time.Second // with less, renewals every third of it leave no time for a retry
	defaultWait    = time.Hour
	defaultExecTTL = 5 * time.Minute // of a lease that exec or a keeper renews
)

func (o *takeOptions) bind(flags *pflag.FlagSet) {
	flags.Var(typeValue(&o.Type), "type", "type of the lease: which pool it comes from")
	flags.Var(intValue(&o.Count, 0, 1, pool.MaxUnits), "count", "how many leases, all together or none; of a counted pool, how many units of one lease (default: 1, or what the pool says)")
	bindItems(flags, &o.Items)
	flags.Var(alsoValue(&o.Also), "also", fmt.Sprintf("another type to take a lease of, or N, in the same grant: all or none; may be given %d times; everything else is about --type", leaseapi.MaxAlso))
	flags.Var(keyValue(&o.Key), "key", "what the lease is for; two leases of a pool never have the same key at once, unless both read it, and a request that waits for its key delays no others")
	flags.Var(choiceValue(&o.KeyMode, "", leaseapi.KeyRead, leaseapi.KeyWrite), "key-mode", "with --key: read shares the key with others that read it; write has it alone (default: write)")
	flags.Var(nameValue(&o.Name), "name", "the name of the lease: this one and no other, of a pool that lists its names; a request that waits for it delays no others")
	flags.Var(intValue(&o.Priority, 0, -leaseapi.MaxPriority, leaseapi.MaxPriority), "priority", "how many steps to go ahead in the queue, or behind if negative; a step is worth 10 m of waiting, unless the proxy sets another time")
	flags.Var(newHandleValue(&o.handle), "handle", "path of the handle to write (default: a new one in $LEASECTL_STATE_DIR)")
	flags.Var(choiceValue(&o.scope, "step", "step", "test"), "scope", "step, or test: also list the names in $SHARED_DIR/leases for later steps")
	flags.Var(durationValue(&o.jitter, 0, 0, maxTime), "jitter", "wait a random time of up to this before asking")
	flags.Var(durationValue(&o.waitTimeout, defaultWait, 0, maxTime), "wait-timeout", "how long to queue; 0 asks once")
	flags.Var(durationValue(&o.ttl, 0, minTTL, maxTime), "ttl", "how long the lease lasts after its last renewal")
	flags.Var(durationValue(&o.releaseAfter, 0, time.Second, maxTime), "release-after", "release the lease this long after it was acquired, whatever happens")
	flags.BoolVar(&o.optional, "optional", false, "go on without a lease if none is to be had, and say so")
}

// bindItems binds --items, from which a counted pool computes units.
func bindItems(flags *pflag.FlagSet, items **int) {
	flags.Var(itemsValue(items), "items", "how many items the lease is for; the cost setting of a counted pool says how many units that is")
}

// bindOvercommit binds --overcommit, which takes a lease even if the pool is full.
func (o *takeOptions) bindOvercommit(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Overcommit, "overcommit", false, "take the lease even if the pool is full or paused, up to its overcommit setting; the lease counts as in use; for work that must not wait, such as deprovisioning")
}

func (o *takeOptions) check() error {
	if o.Type == "" && !o.typeless {
		return usagef("no --type: name the type of the lease to take")
	}
	if rule := leaseapi.CheckTogether(&o.Ask); rule != nil {
		return usagef("%s %s %s: %s", flagOf(rule.Part), rule.Rule, flagOf(rule.Other), rule.Why)
	}
	if err := leaseapi.CheckAlso(o.Type, o.Also); err != nil {
		return usagef("--also: %w", err)
	}
	return nil
}

// flagOf returns the flag of a part that [leaseapi.RuleError] names.
func flagOf(part string) string {
	name, value, ok := strings.Cut(part, " ")
	name = "--" + strings.ReplaceAll(name, "_", "-")
	if !ok {
		return name
	}
	return name + " " + value
}

// request returns the request that the flags ask for, with the names to be written to handle.
func (o *takeOptions) request(handle holder.Handle) (holder.Request, error) {
	r := holder.Request{
		Ask:         o.Ask,
		Owner:       o.owner,
		Terms:       holder.Terms{Owner: o.owner},
		Handle:      handle,
		Private:     o.handle == "",
		Jitter:      o.jitter,
		WaitTimeout: o.waitTimeout,
		TTL:         o.ttl,
		Around:      handleAround(),
	}
	r.List = o.list
	var err error
	if o.scope == "test" {
		r.List, err = sharedList()
	}
	return r, err
}

// sharedList returns the list of the names that outlive the step, in $SHARED_DIR.
func sharedList() (holder.List, error) {
	return holder.ListIn(os.Getenv("SHARED_DIR"))
}
