package holder

import (
	"sync"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// ending is what is known of the command of a lease at its end.
type ending struct {
	peak     *leaseapi.Peak // nil: not measured
	exitCode *int           // nil: it did not end by itself, or nobody asks
	outcome  Outcome        // what the account said
}

// endings are those of leases that were not given back yet, by request id. They go
// with the release, whichever part of this process sends it.
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

// notePeak makes the peak of a round, and that of its lease here, the larger of both.
func (e *endings) notePeak(r *lockfile.Round) {
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

// report is the outcome of a request on the wire; nil if nothing is said.
func (o Outcome) report(request string) *leaseapi.ReportRequest {
	if o.Word == "" || request == "" {
		return nil
	}
	return &leaseapi.ReportRequest{RequestID: request, Outcome: o.Word, Detail: leaseapi.Clip(o.Detail, leaseapi.MaxDetail)}
}
