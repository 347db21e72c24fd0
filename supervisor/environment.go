package supervisor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/holder"
)

// leaseVariables tell a command about its lease. Those of an outer leasectl are
// not passed on: they are about another lease.
var leaseVariables = []string{"LEASECTL_STATE", "LEASECTL_HANDLE", "LEASECTL_NAMES", "LEASECTL_GENERATION", "LEASECTL_UNITS", "LEASECTL_REQUEST_ID", "LEASED_RESOURCE"}

// UsesVariable tells a leasectl below which uses of shared leases it runs under. Unlike
// the others it is passed on by all.
const UsesVariable = "LEASECTL_USES"

// withoutVariable returns env without one variable.
func withoutVariable(env []string, name string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// environment returns env with what a command may want to know of its lease,
// which is nil if it has none.
func environment(env []string, lease *holder.Lease, state string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(leaseVariables, name)
	})
	env = append(env, "LEASECTL_STATE="+state)
	if lease == nil {
		return env
	}
	if uses := lease.Uses(); uses != "" { // which name those above, too
		env = append(withoutVariable(env, UsesVariable), UsesVariable+"="+uses)
	}
	names := lease.Names()
	env = append(env, "LEASECTL_HANDLE="+lease.Handle(), "LEASECTL_NAMES="+strings.Join(names, ","))
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
		env = append(env, "LEASED_RESOURCE="+names[0])
	}
	return env
}
