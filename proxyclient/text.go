package proxyclient

import (
	"fmt"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// maxText is how many bytes of the proxy's text an error may have.
const maxText = 300

// shortLine makes the proxy's text fit for an error: one short printable line.
func shortLine(text string) string {
	if len(text) <= maxText {
		return leaseapi.Printable(text)
	}
	return leaseapi.Clip(text, maxText) + "…"
}

// makePrintable makes texts printable that other clients, or an operator, gave to the proxy.
func makePrintable(texts ...*string) {
	for _, s := range texts {
		*s = leaseapi.Printable(*s)
	}
}

// cleanLease makes the texts of a lease printable.
func cleanLease(l *leaseapi.PoolLease) {
	makePrintable(&l.Name, &l.Owner, &l.Token, &l.Key, &l.Broken)
}

func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}
