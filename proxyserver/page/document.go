package page

import (
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// Page is the content of a page, without its [Frame].
type Page struct {
	Title string
	Parts []Part
	// Live is the path from which the browser gets the page's changes; empty: there are none.
	Live string
	// Refresh makes the browser load the page again at once.
	Refresh bool
}

// Part is a piece of a page that changes as a whole.
type Part struct {
	ID   string
	HTML markup.HTML
	// Fixed marks a part with input fields: it does not change while the page is open.
	Fixed bool
}

// Frame is what stands around the content of every page of a server.
type Frame struct {
	Server  string // its name, for people
	Version string
	Durable bool
	Tokens  bool   // the server asks for tokens
	User    string // the name of the caller's token; empty: nobody is signed in
	Query   string // in the search field
}

// add adds a part.
func (p *Page) add(id string, write func(b *markup.Builder)) {
	var b markup.Builder
	write(&b)
	p.Parts = append(p.Parts, Part{ID: id, HTML: b.HTML()})
}

// Document returns the whole page as HTML.
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

// head writes the title of the page, and names the files that it needs.
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

// header writes the ways to other pages: by name, by search, and to sign in.
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

// main writes the title and the parts.
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

// footer writes which server serves the page.
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
