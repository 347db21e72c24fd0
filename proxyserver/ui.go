package proxyserver

import (
	"fmt"
	"net/http"

	"github.com/leasectl/leasectl/proxyserver/page"
)

// The status page. Its pages are GETs; operations are POSTs. It has sessions where the
// wire has tokens, and answers with pages where the wire answers with problems.

// uiHeaders are the headers of every answer. A page loads only content of this server, is
// shown in no frame, and sends no Referer to other hosts.
var uiHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Frame-Options":              "DENY", // for browsers that do not know frame-ancestors
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

func (h *handler) serveUI(w http.ResponseWriter, r *http.Request) {
	for name, value := range uiHeaders {
		w.Header().Set(name, value)
	}
	if err := h.checkPageOrigin(r); err != nil {
		h.metrics.Refused("", "forbidden")
		h.message(w, r, http.StatusForbidden, "Not from here", err.Error())
		return
	}
	if a, ok := page.AssetAt(r.URL.Path); ok {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		w.Header().Set("Content-Type", a.ContentType)
		fmt.Fprint(w, a.Text)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, HEAD, POST")
		h.message(w, r, http.StatusMethodNotAllowed, "Not allowed", "There is nothing at "+r.URL.Path+" that takes "+r.Method+".")
		return
	}
	switch r.URL.Path {
	case "/ui/login":
		h.serveLogin(w, r)
		return
	case "/ui/logout":
		h.serveLogout(w, r)
		return
	}
	if leader := h.leader(); leader != nil && !leader.Leads {
		h.serveStandby(leader, w, r)
		return
	}
	c, ok := caller{}, true
	if h.asksForTokens() {
		c, ok = h.session(r)
	}
	switch op, isOperation := pageOperations[r.URL.Path]; {
	case !ok:
		h.askForToken(w, r)
	case isOperation:
		h.serveOperation(c, op, w, r)
	case r.Method == http.MethodPost:
		w.Header().Set("Allow", "GET, HEAD")
		h.message(w, r, http.StatusMethodNotAllowed, "Not allowed", "There is nothing at "+r.URL.Path+" that takes "+r.Method+".")
	case r.URL.Path == "/ui/live":
		h.serveLive(c, w, r)
	default:
		p, status := h.page(c, r.URL, false)
		h.write(w, r, c, status, p)
	}
}
