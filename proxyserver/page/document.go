package page

import (
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// Page is what stands between the head and the foot of a page.
type Page struct {
	Title string
	Parts []Part
	// Live is the path of the page's changes; empty: it has none.
	Live string
	// Refresh makes the browser ask again at once.
	Refresh bool
}

// Part is a piece of a page that changes as a whole.
type Part struct {
	ID   string
	HTML markup.HTML
	// Fixed is for a part that somebody types into: it does not change while the page
	// is open.
	Fixed bool
}

// Frame is what all pages of a server have around them.
type Frame struct {
	Server  string // its name, for people
	Version string
	Durable bool
	Tokens  bool   // it asks for tokens
	User    string // the name of the caller's token; empty: nobody is signed in
	Query   string // in the search field
}

// add adds a part.
func (p *Page) add(id string, write func(b *markup.Builder)) {
	var b markup.Builder
	write(&b)
	p.Parts = append(p.Parts, Part{ID: id, HTML: b.HTML()})
}

// Document returns the whole page.
func (p Page) Document(f Frame) string {
	var b markup.Builder
	p.head(&b)
	b.Put("<body>\n")
	f.header(&b)
	p.main(&b)
	f.footer(&b)
	b.Put("</body>\n</html>\n")
	return b.HTML().String()
}

// head says what the page needs beside itself.
func (p Page) head(b *markup.Builder) {
	b.Put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
`)
	if p.Refresh {
		b.Put(`<meta http-equiv="refresh" content="0">
`)
	}
	b.Put(`<title>{} · leases</title>
<link rel="icon" href="{}">
<link rel="stylesheet" href="{}">
`, p.Title, Icon.Path(), Style.Path())
	if p.Live != "" {
		b.Put(`<script src="{}" defer></script>
`, Script.Path())
	}
	b.Put("</head>\n")
}

// header has the ways to other pages: by name, by search, and to sign in.
func (f Frame) header(b *markup.Builder) {
	b.Put(`<a class="skip" href="#main">Skip to the content</a>
<header>
<nav aria-label="Pages"><a class="brand" href="/">leases</a> <a href="/ui/events">Events</a></nav>
<form role="search" action="/ui/find"><label class="hidden" for="q">Find my job</label><input id="q" name="q" type="search" maxlength="1024" placeholder="Find my job: its URL, or a part of its owner" value="{}" autocomplete="off"><button>Find</button></form>
`, f.Query)
	switch {
	case f.User != "":
		b.Put(`<a class="user" href="/ui/login">{}</a>
`, f.User)
	case f.Tokens:
		b.Put(`<a class="user" href="/ui/login">Sign in</a>
`)
	}
	b.Put("</header>\n")
}

// main has the title and the parts.
func (p Page) main(b *markup.Builder) {
	b.Put(`<main id="main"`)
	if p.Live != "" {
		b.Put(` data-live="{}"`, p.Live)
	}
	b.Put(`>
<div class="title"><h1><bdi>{}</bdi></h1>`, p.Title)
	if p.Live != "" {
		b.Put(`<p id="live" role="status"></p>`)
	}
	b.Put("</div>\n")
	for _, part := range p.Parts {
		b.Put(`<section id="{}">`, part.ID)
		b.Add(part.HTML)
		b.Put("</section>\n")
	}
	b.Put("</main>\n")
}

// footer says what serves the page.
func (f Frame) footer(b *markup.Builder) {
	b.Put(`<footer><p>leasectl {}`, f.Version)
	if f.Server != "" {
		b.Put(` on {}`, f.Server)
	}
	if !f.Durable {
		b.Put(` · state is in memory only: a restart loses all leases`)
	}
	b.Put("</p></footer>\n")
}
