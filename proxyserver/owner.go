package proxyserver

import (
	"strings"

	"github.com/leasectl/leasectl/pool"
)

// The owner of a lease, as the pools know it, begins with the name of the token
// that it was acquired with, so that it is as durable as the lease and belongs
// to the identity of a request id. Neither part can contain the separator,
// which is a control character.
const holderSeparator = "\x00"

func holder(token, owner string) string {
	if token == "" {
		return owner
	}
	return token + holderSeparator + owner
}

func splitHolder(h string) (token, owner string) {
	token, owner, ok := strings.Cut(h, holderSeparator)
	if !ok {
		return "", h
	}
	return token, owner
}

// ofVersion1 reports whether nobody renews l: its client does not know its id.
func ofVersion1(l pool.Lease) bool { return l.RequestID == "" }
