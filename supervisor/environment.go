package supervisor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/holder"
)

// leaseVariables tell a command about its lease, and so does resourceVariable. Those of
// an outer leasectl are not passed on: they are about another lease.
var leaseVariables = []string{"LEASECTL_STATE", "LEASECTL_HANDLE", namesVariable, "LEASECTL_GENERATION", "LEASECTL_UNITS", "LEASECTL_REQUEST_ID"}

const (
	namesVariable = "LEASECTL_NAMES"
	// resourceVariable is a word of CI systems, too: the job's own, such as the region
	// that it installs in, stays unless the command has one name of ours.
	resourceVariable = "LEASED_RESOURCE"
)

// UsesVariable tells a leasectl below which uses of shared leases it runs under. Unlike
// the others it is passed on by all.
const UsesVariable = "LEASECTL_USES"

// graceVariable tells a leasectl below how long its command has to end after the signal
// that asks for it. It is about the process, not the lease, so that a command without
// one has it, too.
const graceVariable = "LEASECTL_OUTER_GRACE_PERIOD"

// withoutVariable returns env without one variable.
func withoutVariable(env []string, name string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// variable is the value of one variable of env; "" if it is not there.
func variable(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// withVariable returns env with one variable, in the place of one of that name.
func withVariable(env []string, name, value string) []string {
	return append(withoutVariable(env, name), name+"="+value)
}

// environment returns env with what a command may want to know of its lease,
// which is nil if it has none.
func environment(env []string, lease *holder.Lease, state string) []string {
	outer := strings.Split(variable(env, namesVariable), ",")
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return slices.Contains(leaseVariables, name) || name == resourceVariable && value != "" && slices.Contains(outer, value)
	})
	env = append(env, "LEASECTL_STATE="+state)
	if lease == nil {
		// They are there, for scripts under nounset.
		return append(env, "LEASECTL_HANDLE=", namesVariable+"=")
	}
	if uses := lease.Uses(); uses != "" { // which name those above, too
		env = withVariable(env, UsesVariable, uses)
	}
	names := lease.Names()
	env = append(env, "LEASECTL_HANDLE="+lease.Handle(), namesVariable+"="+strings.Join(names, ","))
	if id := lease.RequestID(); id != "" {
		env = append(env, "LEASECTL_REQUEST_ID="+id)
	}
	if generation := lease.Generation(); generation != 0 {
		env = append(env, "LEASECTL_GENERATION="+strconv.FormatUint(generation, 10))
	}
	if units := lease.Units(); units != 0 {
		env = append(env, "LEASECTL_UNITS="+strconv.Itoa(units))
	}
	if len(names) == 1 {
		env = withVariable(env, resourceVariable, names[0])
	}
	return env
}
