package pool

import "strings"

// The owner of a lease begins with who acquired it: the id of the caller, which is its name and,
// if an issuer vouches for the name, that issuer. So the caller is as durable as the lease, and
// belongs to the identity of a request id. No part can contain the separators, which are control
// characters.
const (
	ownerSeparator  = "\x00"
	issuerSeparator = "\x1f"
)

// CallerID returns the id of a caller. The issuer is empty if the name is that of a token of the
// server's own file. Two issuers, and the file, may have callers of the same name.
func CallerID(name, issuer string) string {
	if issuer == "" {
		return name
	}
	return name + issuerSeparator + issuer
}

// BindOwner returns the owner that a caller with that id has in a [Request]; the id may be
// empty.
func BindOwner(caller, owner string) string {
	if caller == "" {
		return owner
	}
	return caller + ownerSeparator + owner
}

// CallerOf returns the id of the caller that an owner is bound to; "" if there is none.
func CallerOf(bound string) string {
	caller, _, ok := strings.Cut(bound, ownerSeparator)
	if !ok {
		return ""
	}
	return caller
}

// SplitOwner returns the parts of an owner for people: the name of the caller, without who vouches
// for it, and the owner itself. Two different callers may have the same name: see [CallerOf].
func SplitOwner(bound string) (name, owner string) {
	caller, owner, ok := strings.Cut(bound, ownerSeparator)
	if !ok {
		return "", bound
	}
	name, _, _ = strings.Cut(caller, issuerSeparator)
	return name, owner
}

// ownersAgree reports whether two owners may be the same. An owner without a caller comes from a
// server that required no tokens, and agrees with any caller. So a server may be restarted with
// tokens, or without, and the waiters come back to their places.
func ownersAgree(a, b string) bool {
	caller, otherCaller := CallerOf(a), CallerOf(b)
	_, owner := SplitOwner(a)
	_, other := SplitOwner(b)
	return owner == other && (caller == otherCaller || caller == "" || otherCaller == "")
}
