// Package ui is the status page of a server: for operators, and for people whose jobs wait.
//
// It guarantees:
//
//   - Text from clients and operators is escaped: the pages are templates of html/template.
//     Such a text becomes a link only if it is a URL of http or https.
//   - A page is complete without JavaScript and without any other host. It loads only content
//     of this server, and is shown in no frame. Its size is bounded: long lists come in pieces,
//     with a link to the next.
//   - On a server that asks for tokens, a browser shows a token once and then has a session,
//     which has the rights of the token. Only a token that is marked admin may operate, and
//     only from a page of this server. A token for some pools begins none: the pages show all. Without tokens the page only shows.
//   - A page consists of parts, each with an id. A browser that shows a page gets the parts
//     that changed, at most once a second. Browsers with the same page share its parts.
//     While no browser shows a page, nothing is made.
//   - A page that cannot be made is answered with 500, and does no harm to leases.
//
// The pages are in html/, each in a file with the templates of its parts, and what they load
// is in assets/. The templates are parsed when the first server of a process is made.
package ui

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/past"
	"github.com/leasectl/leasectl/leaseapi"
)

// Server is what the pages need of the server that they show. Its methods are safe for
// concurrent use.
type Server interface {
	// CheckOrigin returns why the server does not answer r, which came from a browser; nil: it
	// does.
	CheckOrigin(r *http.Request) error
	// Known notes that the sender of r is known. Until then its connection may be closed at any
	// time, and its body must come at once. It returns an error if the sender has too many calls under way.
	Known(by auth.Token, w http.ResponseWriter, r *http.Request) error
	// ReadBody reads the body of r, in bounded time, and of at most so many bytes. It answers an
	// error itself; then ok is false.
	ReadBody(w http.ResponseWriter, r *http.Request, most int64) (body []byte, ok bool)
	// Gate returns who may ask the server.
	Gate() *auth.Gate
	// NotAdmitted counts and logs that somebody was not let in.
	NotAdmitted(r *http.Request, why *auth.Refusal)
	// Refused counts a request that was refused.
	Refused(reason string)
	// StoreID returns the id of the store. No other server on the same host has it.
	StoreID() string
	// Durable reports whether leases outlive the process.
	Durable() bool
	// Crowded reports whether connections run short.
	Crowded() bool
	// Leader returns who leads; nil: this server always does.
	Leader() *leaseapi.Leader
	// Term returns the present term of the server.
	Term() Term

	// Pause, Resume, Remove, Move, Break, Reserve and GiveBack operate the server in the name of a token. They block
	// until that is durable. Without a reason they do nothing, and return an error.
	Pause(by auth.Token, typ, reason string) error
	Resume(by auth.Token, typ, reason string) error
	Remove(by auth.Token, req leaseapi.RemoveRequest) error
	Move(by auth.Token, req leaseapi.MoveRequest) error
	Break(by auth.Token, req leaseapi.BreakRequest) error
	Reserve(by auth.Token, req leaseapi.ReserveRequest) error
	GiveBack(by auth.Token, name, reason string) error
	// Unavailable reports whether err means that the server refuses every call.
	Unavailable(err error) bool
}

// Term is a time in which a server decides who gets a lease.
type Term interface {
	// Do runs op on the pools, and blocks until all that op saw is durable. now is on the
	// lease clock. An error means that the server refuses every call.
	Do(op func(set *pool.Set, now time.Duration)) error
	// Zero returns when the lease clock showed zero, by the wall clock.
	Zero() time.Time
	// Past returns what is known of the term's past.
	Past() *past.Past
	// Peaks returns what leases of a pool asked for and used; nil: nothing is known.
	Peaks(typ string) *leaseapi.Peaks
	// Changed returns a number that is another one after each change of the pools.
	Changed() uint64
}

// UI serves the status page. [New] makes one.
type UI struct {
	server   Server
	version  string // of the program
	log      *slog.Logger
	sessions sessions
	live     live
}

// New returns the status page of a server. connections is how many connections the server
// accepts: a quarter of them may be browsers that are told of changes.
func New(server Server, version string, connections int, log *slog.Logger) *UI {
	templates() // parses them
	return &UI{server: server, version: version, log: log, live: newLive(connections)}
}

// Stop ends the connections of all browsers that are told of changes. It is called once.
func (u *UI) Stop() { close(u.live.stopped) }

// headers are the headers of every answer. A page loads only content of this server, is shown
// in no frame, and sends no Referer to other hosts.
var headers = [...]struct{ name, value string }{
	{"Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
	{"X-Frame-Options", "DENY"}, // for browsers that do not know frame-ancestors
	{"X-Content-Type-Options", "nosniff"},
	{"Referrer-Policy", "no-referrer"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Cache-Control", "no-store"},
}

// ServeHTTP implements [http.Handler] for the paths of which [IsPage] is true.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, h := range headers {
		w.Header().Set(h.name, h.value)
	}
	if err := u.server.CheckOrigin(r); err != nil {
		u.server.Refused("forbidden")
		u.message(w, r, http.StatusForbidden, "Not from here", err.Error())
		return
	}
	if a, ok := assetAt(r.URL.Path); ok {
		a.serve(w)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
		u.notAllowed(w, r, "GET, HEAD, POST")
		return
	}
	if leader := u.server.Leader(); leader != nil && !leader.Leads {
		u.serveStandby(leader, w, r)
		return
	}
	switch r.URL.Path {
	case "/ui/login":
		u.serveLogin(w, r)
		return
	case "/ui/logout":
		u.serveLogout(w, r)
		return
	}
	user, ok := auth.Token{}, true
	if u.asksForTokens() {
		user, ok = u.session(r)
	}
	if !ok {
		if r.Method == http.MethodPost {
			w.Header().Set("Connection", "close") // nobody waits for the rest of the body
		}
		u.askForToken(w, r)
		return
	}
	if err := u.server.Known(user, w, r); err != nil {
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	switch op, isOperation := operationAt(r.URL.Path); {
	case isOperation:
		u.serveOperation(user, op, w, r)
	case r.Method == http.MethodPost:
		u.notAllowed(w, r, "GET, HEAD")
	case r.URL.Path == PathLive:
		u.serveLive(user, w, r)
	default:
		u.write(w, r, user, u.page(r.URL, u.operates(user), false))
	}
}

func (u *UI) notAllowed(w http.ResponseWriter, r *http.Request, allowed string) {
	w.Header().Set("Allow", allowed)
	u.message(w, r, http.StatusMethodNotAllowed, "Not allowed", "There is nothing at "+r.URL.Path+" that takes "+r.Method+".")
}

// serveStandby answers with a link to the leader: a standby knows of no lease. It signs in
// nobody either: behind a load balancer the next request goes to the leader, which does not
// know that session. It closes the connection, which that balancer would not move.
func (u *UI) serveStandby(leader *leaseapi.Leader, w http.ResponseWriter, r *http.Request) {
	p := message(http.StatusServiceUnavailable, "Standby", "This server stands by, and nobody is known to lead: try again soon.", "", "")
	if leader.URL != "" {
		p = message(http.StatusServiceUnavailable, "Standby", "This server stands by: another one leads.",
			strings.TrimSuffix(leader.URL, "/")+r.URL.RequestURI(), leader.URL)
	}
	w.Header().Set("Connection", "close")
	u.write(w, r, auth.Token{}, p)
}

// message answers with a page that says one thing.
func (u *UI) message(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	user, _ := u.session(r)
	u.write(w, r, user, message(status, title, text, "/", "All pools"))
}

// retryAfter is how many seconds a browser is asked to wait after a 503. A server that restarts
// is usually back within that time.
const retryAfter = "1"

// write answers with a page.
func (u *UI) write(w http.ResponseWriter, r *http.Request, user auth.Token, p page) {
	var text bytes.Buffer
	err := p.write(&text, frame{
		Server: r.Host, Version: u.version, Durable: u.server.Durable(),
		Tokens: u.asksForTokens(), User: user.Name, Query: r.URL.Query().Get("q"),
	})
	if err != nil {
		u.log.Error("a page could not be made", "path", r.URL.Path, "error", err)
		http.Error(w, "This page could not be made.", http.StatusInternalServerError)
		return
	}
	if p.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(p.status)
	w.Write(text.Bytes())
}

// formHeaders prepares a page with a form: under no-referrer the browser would hide the
// origin of the form's POST.
func formHeaders(w http.ResponseWriter) { w.Header().Set("Referrer-Policy", "same-origin") }

// maxLogin is the greatest length in bytes of the form with which a browser signs in: a token, and
// the address of a page.
const maxLogin = 4 << 10

// readForm reads the fields of a POST, of at most so many bytes. It answers an error itself, and
// returns false.
func (u *UI) readForm(w http.ResponseWriter, r *http.Request, most int64) (url.Values, bool) {
	body, ok := u.server.ReadBody(w, r, most)
	if !ok {
		return nil, false
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		u.message(w, r, http.StatusBadRequest, "Not understood", "The form is not valid.")
		return nil, false
	}
	return form, true
}
