package holder

import (
	"cmp"
	"strings"

	"github.com/leasectl/leasectl/internal/holder/dial"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// markOwn says in the reason of a wait that the request waits for its own owner's key or name, or
// for a lease of the exec around this process. Such a wait may never end.
func (l *Lease) markOwn(q leaseapi.Queued) leaseapi.Queued {
	switch r := &q.Reason; r.Kind {
	case leaseapi.WaitKey, leaseapi.WaitName:
		if l.record.Owner != "" && r.By == leaseapi.Printable(l.record.Owner) {
			r.By = "yourself"
		}
	case leaseapi.WaitFull, leaseapi.WaitUnits, leaseapi.WaitElsewhere:
		names := l.namesAround(cmp.Or(r.Type, l.record.Type))
		r.Around = leaseapi.Clip(strings.Join(names, ", "), leaseapi.MaxName)
	}
	return q
}

// namesAround returns the leases of a type that the exec around this process holds.
func (l *Lease) namesAround(typ string) []string {
	handle, err := lockfile.OpenHandle(l.around)
	if err != nil {
		return nil // there is no such exec
	}
	r, err := handle.Read()
	if err != nil || r.State != lockfile.HandleHeld || !dial.Same(r.Proxy, l.record.Proxy) {
		return nil
	}
	var names []string
	for _, lease := range r.Leases {
		if cmp.Or(lease.Type, r.Type) == typ {
			names = append(names, lease.Name)
		}
	}
	return names
}
