package proxyclient

import (
	"errors"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

// Each answer to a report, and a lost answer, after which the report is sent again. A
// proxy that takes no reports gets none.
func TestReport(t *testing.T) {
	health := fault{status: 200, body: `{"status":"ok","wire":3}`}
	for name, tt := range map[string]struct {
		faults []fault
		counts bool
		err    error
	}{
		"counts":    {[]fault{health, {status: 200, body: `{"counts":true}`}}, true, nil},
		"again":     {[]fault{health, {status: 200, body: `{"counts":false}`}}, false, nil},
		"forgotten": {[]fault{health, problemFault(404, leaseapi.ProblemUnknownRequest)}, false, ErrUnknownRequest},
		"no lease":  {[]fault{health, problemFault(409, leaseapi.ProblemNoLease)}, false, ErrNoLease},
		"lost":      {[]fault{health, {status: 502, body: "x"}, {status: 200, body: `{"counts":true}`}}, true, nil},
		"wire 2":    {[]fault{{status: 200, body: `{"status":"ok","wire":2}`}}, false, ErrOlder},
	} {
		bubble(t, name, func(t *testing.T) {
			c, _ := serve(t, nil, tt.faults...)
			counts, err := c.Report(t.Context(), leaseapi.ReportRequest{RequestID: "R", Outcome: leaseapi.OutcomeOK})
			if !errors.Is(err, tt.err) || counts != tt.counts {
				t.Errorf("it counts: %v, error %v", counts, err)
			}
		})
	}
}
