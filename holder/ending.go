package holder

import (
	"sync"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// ending is how the command of a lease ended.
type ending struct {
	peak     *leaseapi.Peak // nil: not measured
	exitCode *int           // nil: it did not end by itself, or nobody asks
	outcome  Outcome        // what the account said
}

// endings are the endings of leases that are not given back yet, by request id. A release
// sends them along, whichever part of this process makes it.
type endings struct {
	mu        sync.Mutex
	byRequest map[string]ending
}

func (e *endings) note(request string, change func(*ending)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byRequest == nil {
		e.byRequest = make(map[string]ending)
	}
	noted := e.byRequest[request]
	change(&noted)
	e.byRequest[request] = noted
}

func (e *endings) of(request string) ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.byRequest[request]
}

// mergePeak sets the peak of a round, and that of its lease here, to the larger one.
func (e *endings) mergePeak(r *lockfile.Round) {
	e.note(r.RequestID, func(own *ending) {
		if own.peak != nil && (r.Peak == nil || own.peak.Bytes > r.Peak.Bytes) {
			r.Peak = own.peak
		}
		own.peak = r.Peak
	})
}

// Outcome is what the account said to the holder of a lease.
type Outcome struct {
	Word   string // [leaseapi.OutcomeOK] or [leaseapi.OutcomeThrottled]; empty: nothing is said
	Detail string // for people, such as the line of a log; it is shortened
}

// reportRequest returns the outcome of a request for the wire; nil if nothing is said.
func (o Outcome) reportRequest(request string) *leaseapi.ReportRequest {
	if o.Word == "" || request == "" {
		return nil
	}
	return &leaseapi.ReportRequest{RequestID: request, Outcome: o.Word, Detail: leaseapi.Clip(o.Detail, leaseapi.MaxDetail)}
}
