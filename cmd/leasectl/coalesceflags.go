package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/leaseapi"
)

// coalesceOptions are the flags that say how exec merges its run with others of the same key.
type coalesceOptions struct {
	mode    string // "": do not merge
	variant string // "": a hash of the command line
}

func (o *coalesceOptions) bind(flags *pflag.FlagSet) {
	flags.Var(choiceValue(&o.mode, "", leaseapi.CoalesceJoin, leaseapi.CoalesceOnce, leaseapi.CoalesceLatest), "coalesce", "with --key: merge with another exec of that key: join ends with the run of the last that waits; once does so too, or with a run that is under way; latest replaces the last that waits")
	flags.Var(textValue(&o.variant, leaseapi.CheckVariant, fmt.Sprintf("a variant of 1 to %d bytes", leaseapi.MaxVariant)), "variant", "with --coalesce: what the run does, such as a revision (default: a hash of the command line)")
}

// check refuses flags that do not go with a run that several execs share.
func (o *coalesceOptions) check(take *takeOptions, attempts int) error {
	switch {
	case o.mode == "" && o.variant != "":
		return usagef("--variant goes with --coalesce: say how the runs of a key merge, such as --coalesce join")
	case o.mode == "":
		return nil
	case take.name != "":
		return usagef("--coalesce %s does not go with --name: runs merge by their --key", o.mode)
	case take.key == "":
		return usagef("--coalesce %s goes with --key: say what is the same in the runs that merge", o.mode)
	case take.keyMode == leaseapi.KeyRead:
		return usagef("--coalesce %s does not go with --key-mode read: runs that merge exclude each other", o.mode)
	case len(take.also) > 0:
		return usagef("--coalesce %s does not go with --also: runs that merge wait for one pool", o.mode)
	case attempts > 1:
		return usagef("--coalesce %s does not go with --attempts: others end with the exit code of one run", o.mode)
	case take.releaseAfter > 0:
		return usagef("--coalesce %s does not go with --release-after: others wait for the end of the run", o.mode)
	}
	return nil
}

// applyTo sets in r how a run of the command line args merges with others.
func (o *coalesceOptions) applyTo(r *holder.Request, args []string) {
	if o.mode == "" {
		return
	}
	r.Coalesce, r.Variant = o.mode, o.variant
	if r.Variant == "" {
		sum := sha256.Sum256([]byte(strings.Join(args, "\x00")))
		r.Variant = hex.EncodeToString(sum[:])
	}
}
