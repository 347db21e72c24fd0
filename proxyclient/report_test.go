package proxyclient

import (
	"errors"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

// Each answer to a report, and a lost answer, after which the report is sent again. A
// proxy that takes no reports gets none.
func TestReport(t *testing.T) {
	unknown := problemFault(404, leaseapi.ProblemUnknownRequest) // as leasectl's own server answers
	for name, tt := range map[string]struct {
		faults []fault
		counts bool
		err    error
	}{
		"counts":    {[]fault{unknown, {status: 200, body: `{"counts":true}`}}, true, nil},
		"again":     {[]fault{unknown, {status: 200, body: `{"counts":false}`}}, false, nil},
		"forgotten": {[]fault{unknown, problemFault(404, leaseapi.ProblemUnknownRequest)}, false, ErrUnknownRequest},
		"no lease":  {[]fault{unknown, problemFault(409, leaseapi.ProblemNoLease)}, false, ErrNoLease},
		"lost":      {[]fault{unknown, {status: 502, body: "x"}, {status: 200, body: `{"counts":true}`}}, true, nil},
		"version 1": {[]fault{{status: 404, body: "x"}, {status: 404, body: "x"}}, false, ErrVersion1},
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
