package holder

import (
	"sync"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// ending is how the command of a lease ended.
type ending struct {
	peak     *leaseapi.Peak // nil: not measured
	exitCode *int           // nil: not noted, as if the command did not end by itself
	outcome  Outcome        // what the account said
}

// endings are the endings of this process's leases, by request id. A release by any part of
// this process includes the ending of its lease.
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

// mergePeak sets the peak of a round, and the peak that is noted here for its lease, to the
// larger of the two.
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

// reportRequest returns o for the wire; nil if o says nothing, or without a request id.
func (o Outcome) reportRequest(request string) *leaseapi.ReportRequest {
	if o.Word == "" || request == "" {
		return nil
	}
	return &leaseapi.ReportRequest{RequestID: request, Outcome: o.Word, Detail: leaseapi.Clip(o.Detail, leaseapi.MaxDetail)}
}
