package proxyserver

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// readOperation reads the body of an operator's call into req, and checks it. what names
// the operation for other callers. It answers an error itself; then ok is false.
func (h *handler) readOperation(c caller, what string, w http.ResponseWriter, r *http.Request, req any, check func() error) (ok bool) {
	if err := c.mayOperate(what); err != nil {
		h.refuseCall(w, err)
		return false
	}
	return readJSON(w, r, req, check)
}

func checkReason(reason string) error {
	if reason == "" {
		return errors.New("reason is empty: those concerned will want to know")
	}
	return leaseapi.CheckReason(reason)
}

// by names c in a line of the log. Without tokens there is nobody to name.
func (c caller) by() slog.Attr {
	if c.id == "" {
		return slog.Attr{} // which handlers leave out
	}
	return slog.String("by", c.Name)
}

// act returns an act of c as an operator. Without tokens its By is empty.
func (c caller) act(reason string) pool.Act { return pool.Act{By: c.Name, Reason: reason} }
