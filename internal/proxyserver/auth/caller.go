// Package auth decides who may ask a server, and for what.
//
// A caller shows a bearer token: a secret that the server's file knows by its checksum, or a JSON
// Web Token of an issuer that the file names. [Gate.Admit] returns the [Caller], or a [Refusal].
//
// Guarantees:
//   - A caller is its issuer and its name. A token of the file, and tokens of two issuers, are
//     different callers even if their names are the same. A renewed token is the same caller.
//   - The time that it takes to look for a token of the file tells nothing about these tokens.
//   - A JSON Web Token counts only if a public key of its own issuer signed it, its audience is the
//     configured one, and its times are right within a minute.
//   - A claim that is no text, and a name that could not be an owner, match no rule.
//   - Tokens of the file are independent of issuers: an issuer that does not answer, or answers
//     wrongly, costs only the callers who show its tokens.
//
// Caveat: known keys of an issuer stay in use for up to twelve hours while the issuer does not
// answer. A key that the issuer has withdrawn counts until then, and for ten minutes otherwise.
package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// Role is what a caller may do.
type Role string

// The roles.
const (
	RoleJob   Role = ""      // acquires, renews and releases leases of its own, and sees its pools
	RoleRead  Role = "read"  // sees its pools, and changes nothing
	RoleAdmin Role = "admin" // may operate the server too: break, remove, reserve, pause, resume, back up
)

// String returns the word for people.
func (r Role) String() string {
	if r == RoleJob {
		return "job"
	}
	return string(r)
}

// Rights are what a caller may do, and where.
type Rights struct {
	Role  Role
	Pools []string // globs of the types that it may acquire and see; nil: all
	// MaxPriority is the greatest priority that it may ask for.
	MaxPriority int
	// Overcommit: it may ask for leases beyond the limit, ahead of all others. An admin may, too.
	Overcommit bool
	Share      pool.Share
}

// Caller is the sender of a request.
type Caller struct {
	Name   string
	Issuer string // that vouches for the name; empty: a token of the file
	Rights
	Until time.Time // when its token ends; zero: it does not
}

// ID identifies the caller: two tokens with the same ID are the same caller. It is the first part
// of a bound owner, see [pool.BindOwner].
func (c Caller) ID() string { return pool.CallerID(c.Name, c.Issuer) }

// MayUse reports whether the caller may acquire leases of a type, and see its pool.
func (r Rights) MayUse(typ string) bool {
	return r.Pools == nil || slices.ContainsFunc(r.Pools, func(glob string) bool { return Match(glob, typ) })
}

// CheckPool returns an error that says which pools the caller may use, if typ is not one of them.
func (c Caller) CheckPool(typ string) error {
	if c.MayUse(typ) {
		return nil
	}
	return fmt.Errorf("%s may not use pool %q, but %s", c.Name, typ, strings.Join(c.Pools, ", "))
}

// CheckPriority returns an error that says which priority the caller may ask for at most, if
// priority is more.
func (c Caller) CheckPriority(priority int) error {
	if priority <= c.MaxPriority {
		return nil
	}
	return fmt.Errorf("priority %d is more than this token may ask for: it may ask for %d at the most", priority, c.MaxPriority)
}

// CheckOvercommit returns an error if the caller may not ask for overcommit.
func (c Caller) CheckOvercommit() error {
	if c.Overcommit || c.Role == RoleAdmin {
		return nil
	}
	return errors.New("this token may not ask for overcommit, which goes ahead of all who wait: that takes overcommit: true in its rule, or the word overcommit in its line")
}

// Match reports whether text matches a glob, in which * is any text, also / and none, and
// everything else is itself.
func Match(glob, text string) bool {
	first, rest, wild := strings.Cut(glob, "*")
	if !wild {
		return glob == text
	}
	text, ok := strings.CutPrefix(text, first)
	for ok {
		var part string
		if part, rest, wild = strings.Cut(rest, "*"); !wild {
			return strings.HasSuffix(text, part)
		}
		// The first place is as good as any: what follows is a * and takes the rest.
		_, text, ok = strings.Cut(text, part)
	}
	return false
}
