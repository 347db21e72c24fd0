package proxyserver

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page"
)

// pageOperation is what an operator does from a page: a GET asks for the reason, and a
// POST does it.
type pageOperation struct {
	title  string
	text   func(q url.Values) string
	fields []string // of the form, beside the reason: they name the target
	now    bool     // the operator may choose to do it at once
	back   func(h *handler, q url.Values) string
	do     func(h *handler, c caller, form url.Values) error
}

// pageOperations are the operations of the status page, by path.
var pageOperations = map[string]pageOperation{
	"/ui/pause": {
		title: "Pause", fields: []string{"type"},
		text: func(q url.Values) string {
			return "The pool " + q.Get("type") + " grants nothing until it is resumed, restarts included. Leases are renewed and released as ever; those who wait read the reason."
		},
		back: func(_ *handler, q url.Values) string { return page.PoolPath(q.Get("type")) },
		do: func(h *handler, c caller, form url.Values) error {
			_, err := h.pause(c, leaseapi.PauseRequest{Type: form.Get("type"), Reason: form.Get("reason")})
			return err
		},
	},
	"/ui/resume": {
		title: "Resume", fields: []string{"type"},
		text: func(q url.Values) string { return "The pool " + q.Get("type") + " grants again, at its pace." },
		back: func(_ *handler, q url.Values) string { return page.PoolPath(q.Get("type")) },
		do: func(h *handler, c caller, form url.Values) error {
			_, err := h.resume(c, leaseapi.ResumeRequest{Type: form.Get("type")}, form.Get("reason"))
			return err
		},
	},
	"/ui/remove": {
		title: "Remove", fields: []string{"request"},
		text: func(q url.Values) string {
			return "The request " + q.Get("request") + " leaves the queue without a lease, and its user reads the reason."
		},
		back: func(_ *handler, q url.Values) string { return page.RequestPath(q.Get("request")) },
		do: func(h *handler, c caller, form url.Values) error {
			_, err := h.remove(c, leaseapi.RemoveRequest{RequestID: form.Get("request"), Reason: form.Get("reason")})
			return err
		},
	},
	"/ui/break": {
		title: "Break", fields: []string{"name", "generation"}, now: true,
		text: func(q url.Values) string {
			return "The lease " + q.Get("name") + " is taken away from its holder, who reads the reason with the next renewal. Its name is free when the holder gives it back, or when the lease ends."
		},
		back: (*handler).poolOfName,
		do: func(h *handler, c caller, form url.Values) error {
			generation, err := strconv.ParseUint(form.Get("generation"), 10, 64)
			if err != nil {
				return err
			}
			req := leaseapi.BreakRequest{Name: form.Get("name"), Generation: generation, Reason: form.Get("reason"), Now: form.Get("now") == "true"}
			_, err = h.breakLease(c, req)
			return err
		},
	},
}

func (h *handler) serveOperation(c caller, op pageOperation, w http.ResponseWriter, r *http.Request) {
	formHeaders(w)
	if !h.operates(c) {
		h.metrics.Refused("", "forbidden")
		text := "This takes a token that is marked admin."
		if !h.asksForTokens() {
			text = "A server without tokens only shows: start it with --tokens, or use leasectl."
		}
		h.message(w, r, http.StatusForbidden, "Not allowed", text)
		return
	}
	form, status := r.URL.Query(), http.StatusOK
	failure := ""
	if r.Method == http.MethodPost {
		var ok bool
		if form, ok = h.readForm(w, r); !ok {
			return
		}
		back := op.back(h, form) // before it is done: afterwards nobody may hold the name
		err := checkReason(form.Get("reason"))
		if err == nil {
			err = op.do(h, c, form)
		}
		switch {
		case err == nil:
			http.Redirect(w, r, back, http.StatusSeeOther)
			return
		case refusesAll(err):
			h.message(w, r, http.StatusServiceUnavailable, "Not available", "The server does not answer: "+err.Error())
			return
		}
		failure, status = "It was not done: "+err.Error(), http.StatusConflict
	}
	asked := page.Operation{
		Path: r.URL.Path, Title: op.title, Text: op.text(form), Reason: form.Get("reason"),
		Now: op.now, Back: op.back(h, form), Error: failure,
	}
	for _, field := range op.fields {
		asked.Fields = append(asked.Fields, field, form.Get(field))
	}
	h.write(w, r, c, status, asked.Page())
}

// poolOfName returns the path of the pool that a held name belongs to; / if nobody holds it.
func (h *handler) poolOfName(q url.Values) string {
	path := "/"
	h.term().do(func(set *pool.Set, now time.Duration) {
		if l, ok := set.Held(now, q.Get("name")); ok {
			path = page.PoolPath(l.Type)
		}
	})
	return path
}
