package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/leaseapi"
)

// bindCoalesce binds the flags that say how exec merges its run with others of the same key.
func (o *takeOptions) bindCoalesce(flags *pflag.FlagSet) {
	flags.Var(choiceValue(&o.Coalesce, "", leaseapi.CoalesceJoin, leaseapi.CoalesceOnce, leaseapi.CoalesceLatest), "coalesce", "with --key: merge with another exec of that key: join ends with the run of the last that waits; once does so too, or with a run that is under way; latest replaces the last that waits")
	flags.Var(textValue(&o.Variant, leaseapi.CheckVariant, fmt.Sprintf("a variant of 1 to %d bytes", leaseapi.MaxVariant)), "variant", "with --coalesce: what the run does, such as a revision (default: a hash of the command line)")
}

// checkCoalesce refuses flags that do not go with a run that several execs share.
func (o *takeOptions) checkCoalesce(attempts int) error {
	switch {
	case o.Coalesce == "":
		return nil
	case attempts > 1:
		return usagef("--coalesce %s does not go with --attempts: others end with the exit code of one run", o.Coalesce)
	case o.releaseAfter > 0:
		return usagef("--coalesce %s does not go with --release-after: others wait for the end of the run", o.Coalesce)
	}
	return nil
}

// variantOf returns what the run of the command line args does, if no --variant says it.
func variantOf(args []string) string {
	sum := sha256.Sum256([]byte(strings.Join(args, "\x00")))
	return hex.EncodeToString(sum[:])
}
