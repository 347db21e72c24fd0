package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// leaderLine says which of several servers leads; "" if there is only one.
func leaderLine(l *leaseapi.Leader, now time.Time) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("led by %s for %s, %d standing by\n\n", cmp.Or(l.URL, "a server without --advertise"), age(leaseapi.Duration(max(0, now.Sub(l.Since)))), l.Standby)
}
