package proxyserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/ui"
	"github.com/leasectl/leasectl/leaseapi"
)

// bytesOfList is about what an answer that lists the server's state takes, from before it is made
// until it is read: a page of the list of pools, the metrics, or a page for a browser.
const bytesOfList = leaseapi.MaxBody

// listTime is how long a call waits for room for such an answer.
const listTime = 10 * time.Second

var errAnswers = errors.New("too many large answers are not read yet: try again soon")

// lists reports whether the answer to r is such a list. What the live page sends is shared, and bounded by itself.
func lists(r *http.Request) bool {
	switch path := r.URL.Path; path {
	case leaseapi.PathPools, leaseapi.PathMetrics:
		return true
	default:
		return r.Method != http.MethodPost && path != ui.PathLive && ui.IsPage(path)
	}
}

// roomForList waits until the list that answers r has room, which w gives back in the end.
func (h *handler) roomForList(w *answerWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), listTime)
	defer cancel()
	if !h.answers.await(ctx, w.caller, bytesOfList) {
		return errAnswers
	}
	w.room = bytesOfList
	return nil
}

// answerAgain answers with v, which may be large, to a call that can be repeated: if there is no room, it is refused.
func (h *handler) answerAgain(w http.ResponseWriter, v any) {
	body, ok := encode(w, v)
	if !ok {
		return
	}
	if a, counts := w.(*answerWriter); counts && len(body) > usualBody {
		if !h.answers.take(a.caller, int64(len(body))) {
			unavailable(w, errAnswers)
			return
		}
		a.room = int64(len(body))
	}
	writeBody(w, http.StatusOK, contentTypeJSON, body)
}
