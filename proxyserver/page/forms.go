package page

import (
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// Operation is an act that an operator has to confirm.
type Operation struct {
	Path   string   // to which the form is sent
	Title  string   // also the text of the button
	Text   string   // what the operation does
	Fields []string // the hidden fields: names and values by turns
	Reason string   // the content of that field; empty at first
	Now    bool     // offer to do it at once
	Back   string   // the page to return to
	Error  string   // why it was not done the last time
}

// Page returns a page that asks for the reason, and for a confirmation.
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

// Login returns a page that asks for a token or, if user is not empty, shows the session of the
// token user. role says what the token may do. next is the path of the page to go on to. problem
// is why the last token was refused; it may be empty.
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

// Message returns a page that says one thing. href is where a link with the text onwards leads;
// both may be empty. href must be a URL of http or https, or a path, else there is no link.
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
