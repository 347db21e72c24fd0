package proxyserver

import "github.com/leasectl/leasectl/pool"

// The holder of a lease is its owner as the pools know it, with the token that it was
// acquired with.

func holder(token, owner string) string { return pool.BindOwner(token, owner) }

func splitHolder(h string) (token, owner string) { return pool.SplitOwner(h) }

// ofVersion1 reports whether nobody renews l: its client does not know its id.
func ofVersion1(l pool.Lease) bool { return l.RequestID == "" }
