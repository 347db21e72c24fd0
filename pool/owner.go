package pool

import "strings"

// The owner of a lease begins with the name of the token that was used to acquire the lease. So
// the token is as durable as the lease, and belongs to the identity of a request id. Neither
// part can contain the separator, which is a control character.
const ownerSeparator = "\x00"

// BindOwner returns the owner that a caller with that token has in a [Request]; the
// token may be empty.
func BindOwner(token, owner string) string {
	if token == "" {
		return owner
	}
	return token + ownerSeparator + owner
}

// SplitOwner is the reverse of [BindOwner].
func SplitOwner(bound string) (token, owner string) {
	token, owner, ok := strings.Cut(bound, ownerSeparator)
	if !ok {
		return "", bound
	}
	return token, owner
}

// ownersAgree reports whether two owners may be the same. An owner without a token comes from a
// server that required none, and agrees with any token. So a server may be restarted with
// tokens, or without, and the waiters come back to their places.
func ownersAgree(a, b string) bool {
	token, owner := SplitOwner(a)
	otherToken, other := SplitOwner(b)
	return owner == other && (token == otherToken || token == "" || otherToken == "")
}
