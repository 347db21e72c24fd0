package supervisor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/internal/holder"
)

// leaseVariables tell a command about its lease, and so does resourceVariable. Values from an
// outer leasectl are not passed on, since they are about another lease.
var leaseVariables = []string{"LEASECTL_STATE", "LEASECTL_HANDLE", namesVariable, "LEASECTL_GENERATION", "LEASECTL_UNITS", "LEASECTL_REQUEST_ID"}

const (
	namesVariable = "LEASECTL_NAMES"
	// resourceVariable is a word of CI systems, too. The job's own value, such as the region
	// that it installs in, stays unless the command has exactly one name of ours.
	resourceVariable = "LEASED_RESOURCE"
)

// UsesVariable tells a nested leasectl which uses of shared leases it runs under. Unlike the
// other variables, it is passed on by every leasectl.
const UsesVariable = "LEASECTL_USES"

// graceVariable tells a nested leasectl how long it has to end after a signal that asks it to.
// It is about the process, not the lease, so a command without a lease has it, too.
const graceVariable = "LEASECTL_OUTER_GRACE_PERIOD"

// withoutVariable returns env without one variable. It changes env.
func withoutVariable(env []string, name string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
}

// variable returns the value of one variable of env; "" if it is missing.
func variable(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// withVariable returns env with one variable set to value. It changes env.
func withVariable(env []string, name, value string) []string {
	return append(withoutVariable(env, name), name+"="+value)
}

// environment returns env with the variables about the command's lease, which is nil if the
// command has none. It does not change env.
func environment(env []string, lease *holder.Lease, state string) []string {
	outer := strings.Split(variable(env, namesVariable), ",")
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		return slices.Contains(leaseVariables, name) || strings.HasPrefix(name, namesVariable+"_") || name == resourceVariable && value != "" && slices.Contains(outer, value)
	})
	env = append(env, "LEASECTL_STATE="+state)
	if lease == nil {
		// Set, though empty, for scripts under nounset.
		return append(env, "LEASECTL_HANDLE=", namesVariable+"=")
	}
	if uses := lease.Uses(); uses != "" { // which include those of outer leasectls
		env = withVariable(env, UsesVariable, uses)
	}
	names := lease.Names()
	env = append(env, "LEASECTL_HANDLE="+lease.Handle(), namesVariable+"="+strings.Join(names, ","))
	for typ, names := range lease.NamesOf() {
		env = withVariable(env, NamesVariable(typ), strings.Join(names, ","))
	}
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
	for _, v := range lease.Variables() {
		name, value, _ := strings.Cut(v, "=")
		env = withVariable(env, name, value)
	}
	return env
}

// NamesVariable returns the variable of the command with the names of one of several types: LEASECTL_NAMES_ and the
// type in upper case, in which everything but ASCII letters and digits is an underscore.
func NamesVariable(typ string) string {
	return namesVariable + "_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, typ)
}

// serviceEnvironment returns the environment of the service of a shared lease: that of a command of
// its first user, but the service runs under nobody's use.
func (o *Options) serviceEnvironment(lease *holder.Lease) []string {
	env := environment(o.Environment, lease, StateAcquired)
	return withoutVariable(withoutVariable(env, UsesVariable), graceVariable)
}
