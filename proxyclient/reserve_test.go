package proxyclient

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

// A reservation is asked for at a proxy that knows them, and each refusal is told from the others by its
// error, with the proxy's text.
func TestReserve(t *testing.T) {
	req := leaseapi.ReserveRequest{Name: "a", Owner: "me", Reason: "why"}
	for name, tt := range map[string]struct {
		problem string
		want    error
	}{
		"reserved by another": {leaseapi.ProblemReserved, ErrReserved},
		"no such name":        {leaseapi.ProblemUnknownName, ErrUnknownName},
		"done":                {},
	} {
		bubble(t, name, func(t *testing.T) {
			proxy := newOurs(t, "a")
			c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path != leaseapi.PathReserve:
					proxy.ServeHTTP(w, r)
				case tt.problem != "":
					problem(w, 409, leaseapi.Problem{Type: tt.problem, Detail: "so it is"})
				default:
					answerJSON(w, 200, leaseapi.ReserveReply{Type: "t", Reservation: leaseapi.Reservation{Name: "a", HeldBy: "job\x1b[2J"}})
				}
			}))
			reply, err := c.Reserve(t.Context(), req)
			switch {
			case tt.want == nil && (err != nil || reply.Reservation.HeldBy != "job [2J"):
				t.Errorf("%+v, %v", reply, err)
			case tt.want != nil && (!errors.Is(err, tt.want) || !strings.Contains(err.Error(), "so it is")):
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}
