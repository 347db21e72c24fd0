package page

import (
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// Operation is what an operator is about to do.
type Operation struct {
	Path   string   // to which it is sent
	Title  string   // and what the button says
	Text   string   // what it does
	Fields []string // names and values by turns: of what
	Reason string   // the field's; empty at first
	Now    bool     // it may be done at once
	Back   string   // the page to return to
	Error  string   // why it was not done the last time
}

// Page asks for the reason, and for a confirmation.
func (o Operation) Page() Page {
	p := Page{Title: o.Title}
	p.add("operation", func(b *markup.Builder) {
		if o.Error != "" {
			b.Put(`<p class="error" role="alert">{}</p>`, leaseapi.Printable(o.Error))
		}
		b.Put(`<p>{}</p><form method="post" action="{}" class="card">`, o.Text, o.Path)
		for i := 0; i < len(o.Fields); i += 2 {
			b.Put(`<input type="hidden" name="{}" value="{}">`, o.Fields[i], o.Fields[i+1])
		}
		b.Put(`<label>Reason, which those concerned read <input name="reason" required maxlength="{}" value="{}" autofocus autocomplete="off"></label>`,
			itoa(leaseapi.MaxReason), o.Reason)
		if o.Now {
			b.Put(`<label class="check"><input type="checkbox" name="now" value="true"> at once: do not leave its holder time to stop</label>`)
		}
		b.Put(`<p class="actions"><button class="danger">{}</button> <a href="{}">Back</a></p></form>`, o.Title, o.Back)
	})
	return p
}

// Login asks for a token, or says whose session it is. next is the page to go on to.
func Login(user, role, next, problem string) Page {
	p := Page{Title: "Sign in"}
	if user != "" {
		p.Title = "Signed in"
	}
	p.add("login", func(b *markup.Builder) {
		if user != "" {
			b.Put(`<p>You are signed in with the token <b><bdi>{}</bdi></b>, which {}.</p>`, leaseapi.Printable(user), role)
			b.Put(`<form method="post" action="/ui/logout"><button>Sign out</button></form>`)
			return
		}
		if problem != "" {
			b.Put(`<p class="error" role="alert">{}</p>`, problem)
		}
		b.Put(`<form method="post" action="/ui/login" class="card"><input type="hidden" name="next" value="{}">`, next)
		b.Put(`<label>Token <input name="token" type="password" required autofocus autocomplete="current-password" maxlength="1024"></label><p class="actions"><button>Sign in</button></p></form>`)
		b.Put(`<p class="note">The token is sent once, and this browser does not keep it. A token that is marked read can look; one that is marked admin can operate.</p>`)
	})
	return p
}

// Message is a page that says one thing. href is a place to go on to, with a text;
// both may be empty.
func Message(title, text, href, onwards string) Page {
	p := Page{Title: title}
	p.add("message", func(b *markup.Builder) {
		b.Put(`<p class="lead">{}</p>`, leaseapi.Printable(text))
		if to, ok := link(href); ok {
			b.Put(`<p><a href="{}">{}</a></p>`, to, onwards)
		} else if len(href) > 1 && href[0] == '/' && href[1] != '/' {
			b.Put(`<p><a href="{}">{}</a></p>`, href, onwards)
		}
	})
	return p
}
