package proxyserver

import (
	"net/http"
	"net/url"
	"time"

	"github.com/leasectl/leasectl/proxyserver/page"
)

// askForToken redirects a browser without a session to the login page. A browser that
// follows a link from another site does not send a SameSite=Strict cookie. So it gets a
// page that asks again: that request comes from our site, and carries the cookie.
func (h *handler) askForToken(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") == "navigate" {
		p := page.Message("One moment", "Looking for your session.", "", "")
		p.Refresh = true
		h.write(w, r, caller{}, http.StatusOK, p)
		return
	}
	next := "/"
	if r.Method != http.MethodPost {
		next = r.URL.RequestURI()
	}
	http.Redirect(w, r, "/ui/login?"+url.Values{"next": {next}}.Encode(), http.StatusSeeOther)
}

func (h *handler) serveLogin(w http.ResponseWriter, r *http.Request) {
	formHeaders(w)
	if !h.asksForTokens() {
		h.message(w, r, http.StatusOK, "Nobody signs in", "This server asks for no tokens: everybody who reaches it may look.")
		return
	}
	if r.Method != http.MethodPost {
		c, _ := h.session(r)
		h.write(w, r, c, http.StatusOK, page.Login(c.token, roleText(c), page.Local(r.URL.Query().Get("next")).RequestURI(), ""))
		return
	}
	form, ok := h.readForm(w, r)
	if !ok {
		return
	}
	next := page.Local(form.Get("next")).RequestURI()
	t, ok := h.tokens.Load().Find("Bearer " + form.Get("token"))
	if !ok {
		h.metrics.Refused("", "unauthorized")
		h.write(w, r, caller{}, http.StatusUnauthorized, page.Login("", "", next, "The server does not know this token."))
		return
	}
	h.log.Info("signed in", "token", t.Name)
	h.setSession(w, r, h.sessions.begin(t, time.Now()))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (h *handler) serveLogout(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		if cookie, err := r.Cookie(h.cookieName()); err == nil {
			h.sessions.end(cookie.Value)
		}
		h.setSession(w, r, "")
	}
	http.Redirect(w, r, "/ui/login", http.StatusSeeOther)
}

// roleText says what c may do on the page.
func roleText(c caller) string {
	if c.admin {
		return "is marked admin: it may look and operate"
	}
	return "may look"
}
