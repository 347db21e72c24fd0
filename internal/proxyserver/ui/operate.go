package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/leaseapi"
)

// operation is what an operator does from a page: a GET asks for the reason, and a
// POST does it.
type operation struct {
	path   string
	title  string
	text   func(q url.Values) string
	fields []string // of the form, beside the reason: they name the target
	now    bool     // the operator may choose to do it at once
	ranks  bool     // the operator says which priority
	lasts  bool     // the operator says which name, and for how long
	back   func(u *UI, q url.Values) string
	do     func(s Server, by auth.Token, form url.Values) error
}

// operations are the operations of the status page.
var operations = [...]operation{
	{
		path: "/ui/pause", title: "Pause", fields: []string{"type"},
		text: func(q url.Values) string {
			return "The pool " + q.Get("type") + " grants nothing until it is resumed, restarts included. Leases are renewed and released as ever; those who wait read the reason."
		},
		back: backToPool,
		do: func(s Server, by auth.Token, form url.Values) error {
			return s.Pause(by, form.Get("type"), form.Get("reason"))
		},
	},
	{
		path: "/ui/resume", title: "Resume", fields: []string{"type"},
		text: func(q url.Values) string { return "The pool " + q.Get("type") + " grants again, at its pace." },
		back: backToPool,
		do: func(s Server, by auth.Token, form url.Values) error {
			return s.Resume(by, form.Get("type"), form.Get("reason"))
		},
	},
	{
		path: "/ui/remove", title: "Remove", fields: []string{"request", "caller"},
		text: func(q url.Values) string {
			return "The request " + q.Get("request") + " leaves the queue without a lease, and its user reads the reason."
		},
		back: func(_ *UI, q url.Values) string { return RequestPath(pool.BindID(q.Get("caller"), q.Get("request"))) },
		do: func(s Server, by auth.Token, form url.Values) error {
			return s.Remove(by, leaseapi.RemoveRequest{RequestID: form.Get("request"), Caller: form.Get("caller"), Reason: form.Get("reason")})
		},
	},
	{
		path: "/ui/move", title: "Move", fields: []string{"request", "caller"}, ranks: true,
		text: func(q url.Values) string {
			return "The request " + q.Get("request") + " stands in the queue from now on as if it had asked for this priority: a higher one is ahead."
		},
		back: func(_ *UI, q url.Values) string { return RequestPath(pool.BindID(q.Get("caller"), q.Get("request"))) },
		do: func(s Server, by auth.Token, form url.Values) error {
			priority, err := strconv.Atoi(form.Get("priority"))
			if err != nil {
				return err
			}
			return s.Move(by, leaseapi.MoveRequest{
				RequestID: form.Get("request"), Caller: form.Get("caller"), Priority: priority, Reason: form.Get("reason"),
			})
		},
	},
	{
		path: "/ui/reserve", title: "Reserve", fields: []string{"type"}, lasts: true,
		text: func(q url.Values) string {
			return "The name is taken out of the pool " + q.Get("type") + ": at once if it is free, else when its holder ends, ahead of all who wait. It counts as in use until somebody gives it back, restarts included."
		},
		back: backToPool,
		do: func(s Server, by auth.Token, form url.Values) error {
			var d time.Duration
			if text := form.Get("for"); text != "" {
				var err error
				if d, err = time.ParseDuration(text); err != nil || d <= 0 {
					return fmt.Errorf("for how long: %q is no time such as 2h or 90m", leaseapi.Shorten(text))
				}
			}
			return s.Reserve(by, leaseapi.ReserveRequest{
				Name: form.Get("name"), Owner: by.Name, For: leaseapi.Duration(d), Reason: form.Get("reason"),
			})
		},
	},
	{
		path: "/ui/give-back", title: "Give back", fields: []string{"name"},
		text: func(q url.Values) string {
			return "The name " + q.Get("name") + " is in its pool again, for those who wait."
		},
		back: (*UI).backToPoolOfName,
		do: func(s Server, by auth.Token, form url.Values) error {
			return s.GiveBack(by, form.Get("name"), form.Get("reason"))
		},
	},
	{
		path: "/ui/break", title: "Break", fields: []string{"name", "generation"}, now: true,
		text: func(q url.Values) string {
			return "The lease " + q.Get("name") + " is taken away from its holder, who reads the reason with the next renewal. Its name is free when the holder gives it back, or when the lease ends."
		},
		back: (*UI).backToPoolOfName,
		do: func(s Server, by auth.Token, form url.Values) error {
			generation, err := strconv.ParseUint(form.Get("generation"), 10, 64)
			if err != nil {
				return err
			}
			return s.Break(by, leaseapi.BreakRequest{
				Name: form.Get("name"), Generation: generation, Reason: form.Get("reason"), Now: form.Get("now") == "true",
			})
		},
	},
}

// operationAt returns the operation of a path; false if there is none.
func operationAt(path string) (operation, bool) {
	i := slices.IndexFunc(operations[:], func(op operation) bool { return op.path == path })
	if i < 0 {
		return operation{}, false
	}
	return operations[i], true
}

func backToPool(_ *UI, q url.Values) string { return poolPath(q.Get("type")) }

// backToPoolOfName returns the path of the pool that a name belongs to; / if it is in none.
func (u *UI) backToPoolOfName(q url.Values) string {
	path := "/"
	u.server.Term().Do(func(set *pool.Set, now time.Duration) {
		if l, ok := set.Held(now, q.Get("name")); ok {
			path = poolPath(l.Type)
		} else if typ, ok := set.PoolOf(q.Get("name")); ok {
			path = poolPath(typ)
		}
	})
	return path
}

// asked is what the form of an operation shows.
type asked struct {
	Path      string // to which the form is sent
	Title     string // of the button
	Text      string // what the operation does
	Fields    map[string]string
	Reason    string            // the content of that field; empty at first
	MaxReason int               // the greatest length of a reason
	Now       bool              // offer to do it at once
	Ranks     bool              // ask for a priority
	Priority  string            // the content of that field
	Lasts     bool              // ask for a name, and for how long
	Name, For string            // the content of these fields
	Names     []pool.NameStatus // to choose from
	// MaxPriority is the highest one, and below zero the lowest.
	MaxPriority int
	Back        string // the page to return to
	Error       string // why it was not done the last time
}

func (u *UI) serveOperation(user auth.Token, op operation, w http.ResponseWriter, r *http.Request) {
	formHeaders(w)
	if !u.operates(user) {
		u.server.Refused("forbidden")
		text := "This takes a token that is marked admin."
		if !u.asksForTokens() {
			text = "A server without tokens only shows: start it with --auth or --tokens, or use leasectl."
		}
		u.message(w, r, http.StatusForbidden, "Not allowed", text)
		return
	}
	form, status := r.URL.Query(), http.StatusOK
	failure := ""
	if r.Method == http.MethodPost {
		var ok bool
		if form, ok = u.readForm(w, r, leaseapi.MaxBody); !ok {
			return
		}
		back := op.back(u, form) // before it is done: afterwards nobody may hold the name
		err := op.do(u.server, user, form)
		switch {
		case err == nil:
			http.Redirect(w, r, back, http.StatusSeeOther)
			return
		case u.server.Unavailable(err):
			u.message(w, r, http.StatusServiceUnavailable, "Not available", "The server does not answer: "+err.Error())
			return
		}
		failure, status = "It was not done: "+err.Error(), http.StatusConflict
	}
	shown := asked{
		Path: r.URL.Path, Title: op.title, Text: op.text(form), Fields: make(map[string]string), Reason: form.Get("reason"),
		MaxReason: leaseapi.MaxReason, Now: op.now, Back: op.back(u, form), Error: failure,
		Ranks: op.ranks, Priority: form.Get("priority"), MaxPriority: leaseapi.MaxPriority,
		Lasts: op.lasts, Name: form.Get("name"), For: form.Get("for"),
	}
	if op.lasts {
		u.server.Term().Do(func(set *pool.Set, now time.Duration) {
			shown.Names = set.NameStatuses(now, form.Get("type"), leaseapi.ListedNames)
		}) // without an answer the name is typed
	}
	for _, field := range op.fields {
		shown.Fields[field] = form.Get(field)
	}
	u.write(w, r, user, page{name: "operation", status: status, Title: op.title, Parts: parts("form"), data: shown})
}
