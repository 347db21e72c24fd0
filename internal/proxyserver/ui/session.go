package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
)

const (
	// sessionTime is how long a session lasts: a day of work.
	sessionTime = 12 * time.Hour
	// mostSessions is how many sessions a token has; beyond it its oldest one ends. So nobody ends
	// the sessions of others.
	mostSessions = 100
)

// sessions are the sessions of browsers that showed a token. A session has the rights of
// its token, and ends when the server no longer accepts the token, or with the process.
type sessions struct {
	mu   sync.Mutex
	byID map[[sha256.Size]byte]session // by the sum of the cookie's value
}

type session struct {
	token auth.Token
	ends  time.Time
}

// begin begins a session and returns the value of its cookie, which is random and
// says nothing of the token.
func (s *sessions) begin(t auth.Token, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[[sha256.Size]byte]session)
	}
	var oldest [sha256.Size]byte
	own := 0
	for id, other := range s.byID {
		if !now.Before(other.ends) {
			delete(s.byID, id)
			continue
		}
		if other.token.Sum != t.Sum {
			continue
		}
		if own++; own == 1 || other.ends.Before(s.byID[oldest].ends) {
			oldest = id
		}
	}
	if own >= mostSessions {
		delete(s.byID, oldest)
	}
	value := rand.Text()
	s.byID[sha256.Sum256([]byte(value))] = session{token: t, ends: now.Add(sessionTime)}
	return value
}

// find returns the token of a session, which accepted must know as it was.
func (s *sessions) find(value string, accepted func(auth.Sum) (auth.Token, bool), now time.Time) (auth.Token, bool) {
	id := sha256.Sum256([]byte(value))
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.byID[id]
	if !ok {
		return auth.Token{}, false
	}
	t, ok := accepted(found.token.Sum)
	same := ok && t.Name == found.token.Name && t.Role == found.token.Role && t.Pools == nil
	if !same || !now.Before(found.ends) {
		delete(s.byID, id)
		return auth.Token{}, false
	}
	return t, true
}

// end ends a session.
func (s *sessions) end(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(value)))
}

// asksForTokens reports whether a browser needs a session.
func (u *UI) asksForTokens() bool { return u.server.Gate().Asks() }

// operates reports whether user may operate from a page. Without tokens nobody may: the
// page could not tell people apart.
func (u *UI) operates(user auth.Token) bool {
	return u.asksForTokens() && user.Role == auth.RoleAdmin
}

// session returns the token of the session that the cookie of r names; false without a valid
// session.
func (u *UI) session(r *http.Request) (auth.Token, bool) {
	cookie, err := r.Cookie(u.cookieName())
	if err != nil {
		return auth.Token{}, false
	}
	return u.sessions.find(cookie.Value, u.server.Gate().TokenOf, time.Now())
}

// cookieName returns the name of the session cookie. A browser sends a cookie to all
// ports of a host, so each server on a host needs a name of its own.
func (u *UI) cookieName() string {
	sum := sha256.Sum256([]byte(u.server.StoreID()))
	return "leasectl_" + hex.EncodeToString(sum[:4])
}

// setSession makes the browser keep value; an empty value deletes the cookie. If the
// browser came over https, it sends the cookie only over https. Where a proxy in front of
// this server ends TLS, the Origin header says https.
func (u *UI) setSession(w http.ResponseWriter, r *http.Request, value string) {
	cookie := &http.Cookie{
		Name: u.cookieName(), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://"),
		MaxAge: int(sessionTime / time.Second),
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// askForToken redirects a browser without a session to the login page. A browser that
// follows a link from another site does not send a SameSite=Strict cookie. So it gets a
// page that asks again: that request comes from our site, and carries the cookie.
func (u *UI) askForToken(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") == "navigate" {
		p := message(http.StatusOK, "One moment", "Looking for your session.", "", "")
		p.Refresh = true
		u.write(w, r, auth.Token{}, p)
		return
	}
	next := "/"
	if r.Method != http.MethodPost {
		next = r.URL.RequestURI()
	}
	http.Redirect(w, r, "/ui/login?"+url.Values{"next": {next}}.Encode(), http.StatusSeeOther)
}

// login is what the page with the form for a token shows.
type login struct {
	User    auth.Token // who is signed in; without a name nobody is
	Next    string     // the path of the page to go on to
	Problem string     // why the last token was refused; empty: it was not
}

// Role says what the user may do on the page.
func (l login) Role() string {
	if l.User.Role == auth.RoleAdmin {
		return "is marked admin: it may look and operate"
	}
	return "may look"
}

func (l login) page(status int) page {
	p := page{name: "login", status: status, Title: "Sign in", Parts: parts("form"), data: l}
	if l.User.Name != "" {
		p.Title = "Signed in"
	}
	return p
}

func (u *UI) serveLogin(w http.ResponseWriter, r *http.Request) {
	formHeaders(w)
	if !u.asksForTokens() {
		u.message(w, r, http.StatusOK, "Nobody signs in", "This server asks for no tokens: everybody who reaches it may look.")
		return
	}
	if r.Method != http.MethodPost {
		user, _ := u.session(r)
		u.write(w, r, user, login{User: user, Next: localPath(r.URL.Query().Get("next"))}.page(http.StatusOK))
		return
	}
	w.Header().Set("Connection", "close") // until the token is known
	form, ok := u.readForm(w, r, maxLogin)
	if !ok {
		return
	}
	next := localPath(form.Get("next"))
	user, ok := u.server.Gate().Token(strings.TrimSpace(form.Get("token")))
	if !ok {
		u.server.NotAdmitted(r, &auth.Refusal{Reason: auth.UnknownToken, Detail: "it is no token of the file"})
		refused := login{Next: next, Problem: "The server does not know this token."}
		u.write(w, r, auth.Token{}, refused.page(http.StatusUnauthorized))
		return
	}
	if user.Pools != nil { // the pages show all pools
		u.server.Refused("forbidden")
		refused := login{Next: next, Problem: "This token is for some pools only, and the page shows all: sign in with another one."}
		u.write(w, r, auth.Token{}, refused.page(http.StatusForbidden))
		return
	}
	w.Header().Del("Connection")
	u.log.Info("signed in", "token", user.Name)
	u.setSession(w, r, u.sessions.begin(user, time.Now()))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (u *UI) serveLogout(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		if cookie, err := r.Cookie(u.cookieName()); err == nil {
			u.sessions.end(cookie.Value)
		}
		u.setSession(w, r, "")
	}
	http.Redirect(w, r, "/ui/login", http.StatusSeeOther)
}
