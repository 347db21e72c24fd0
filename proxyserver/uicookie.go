package proxyserver

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// cookieName is that of the session's cookie. A browser sends a cookie to all ports
// of a host, so servers on one host need names of their own.
func (h *handler) cookieName() string {
	sum := sha256.Sum256([]byte(h.storeID()))
	return "leasectl_" + hex.EncodeToString(sum[:4])
}

// session returns who sent r, by its cookie.
func (h *handler) session(r *http.Request) (caller, bool) {
	cookie, err := r.Cookie(h.cookieName())
	if err != nil {
		return caller{}, false
	}
	t, ok := h.sessions.find(cookie.Value, *h.tokens.Load(), time.Now())
	return callerOf(t), ok
}

// setSession makes the browser keep value; an empty one makes it forget. The cookie
// never leaves https if the browser came that way, also if something in front of
// this server ended TLS: then the origin says so.
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
