package proxyserver

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// cookieName returns the name of the session cookie. A browser sends a cookie to all
// ports of a host, so each server on a host needs a name of its own.
func (h *handler) cookieName() string {
	sum := sha256.Sum256([]byte(h.storeID()))
	return "leasectl_" + hex.EncodeToString(sum[:4])
}

// session returns the sender of r by its cookie; false without a valid session.
func (h *handler) session(r *http.Request) (caller, bool) {
	cookie, err := r.Cookie(h.cookieName())
	if err != nil {
		return caller{}, false
	}
	t, ok := h.sessions.find(cookie.Value, *h.tokens.Load(), time.Now())
	return callerOf(t), ok
}

// setSession makes the browser keep value; an empty value deletes the cookie. If the
// browser came over https, it sends the cookie only over https. Where a proxy in front of
// this server ends TLS, the Origin header says https.
func (h *handler) setSession(w http.ResponseWriter, r *http.Request, value string) {
	cookie := &http.Cookie{
		Name: h.cookieName(), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://"),
		MaxAge: int(sessionTime / time.Second),
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}
