package proxyserver

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyserver/page"
)

// operates reports whether c may operate from a page. Without tokens nobody may: the
// page could not tell people apart.
func (h *handler) operates(c caller) bool { return h.asksForTokens() && c.admin }

// formHeaders prepares a page with a form: under no-referrer the browser would hide the
// origin of the form's POST.
func formHeaders(w http.ResponseWriter) { w.Header().Set("Referrer-Policy", "same-origin") }

// readForm reads the fields of a POST. It answers an error itself, and returns false.
func (h *handler) readForm(w http.ResponseWriter, r *http.Request) (url.Values, bool) {
	body, ok := readBody(w, r)
	if !ok {
		return nil, false
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		h.message(w, r, http.StatusBadRequest, "Not understood", "The form is not valid.")
		return nil, false
	}
	return form, true
}

// message answers with a page that says one thing.
func (h *handler) message(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	c, _ := h.session(r)
	h.write(w, r, c, status, page.Message(title, text, "/", "All pools"))
}

// write answers with a page.
func (h *handler) write(w http.ResponseWriter, r *http.Request, c caller, status int, p page.Page) {
	text := p.Document(page.Frame{
		Server: r.Host, Version: h.version, Durable: h.durable(),
		Tokens: h.asksForTokens(), User: c.token, Query: r.URL.Query().Get("q"),
	})
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, text)
}

// serveStandby answers with a link to the leader: a standby knows of no lease.
func (h *handler) serveStandby(leader *leaseapi.Leader, w http.ResponseWriter, r *http.Request) {
	p := page.Message("Standby", "This server stands by, and nobody is known to lead: try again soon.", "", "")
	if leader.URL != "" {
		p = page.Message("Standby", "This server stands by: another one leads.", strings.TrimSuffix(leader.URL, "/")+r.URL.RequestURI(), leader.URL)
	}
	h.write(w, r, caller{}, http.StatusServiceUnavailable, p)
}
