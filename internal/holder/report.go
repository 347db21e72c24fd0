package holder

import (
	"context"
	"sync"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

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

// Report tells the proxy what the account said to the holder of a record's lease, and returns
// whether the proxy counts it. The lease may have ended. The proxy counts the first report of a
// lease, but throttled replaces an earlier ok. r must have a request id, and o a word. Report
// takes at most [cleanup.Timeout].
//
// Errors are [proxyclient.ErrUnknownRequest] if the proxy has forgotten the lease,
// [proxyclient.ErrNoLease] if the request has none, and [proxyclient.ErrVersion1] if the proxy
// takes no reports.
func (h *Holder) Report(ctx context.Context, r lockfile.Record, o Outcome) (counts bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, cleanup.Timeout)
	defer cancel()
	proxy, err := h.Dialer.ProxyOf(r)
	if err != nil {
		return false, err
	}
	p, err := h.Dialer.Dial(ctx, proxy)
	if err != nil {
		return false, err
	}
	counts, err = p.Report(ctx, *o.reportRequest(r.RequestID))
	return counts, h.lostOrHidden(ctx, p, r, err)
}

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

// MergePeak returns the larger one of peak and the peak that is noted here for the lease of a request. From
// now on that is the noted one. A nil peak was not measured.
func (h *Holder) MergePeak(request string, peak *leaseapi.Peak) *leaseapi.Peak {
	h.endings.note(request, func(own *ending) {
		if own.peak != nil && (peak == nil || own.peak.Bytes > peak.Bytes) {
			peak = own.peak
		}
		own.peak = peak
	})
	return peak
}
