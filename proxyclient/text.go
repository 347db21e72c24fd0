package proxyclient

import (
	"fmt"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// maxText is how many bytes of a text of the proxy go into an error.
const maxText = 300

// shortLine makes a text of the proxy fit for an error: one short printable
// line.
func shortLine(text string) string {
	if len(text) <= maxText {
		return leaseapi.Printable(text)
	}
	return leaseapi.Clip(text, maxText) + "…"
}

func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}
