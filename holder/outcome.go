package holder

import "github.com/leasectl/leasectl/leaseapi"

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
