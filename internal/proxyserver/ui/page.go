package ui

import (
	"bytes"
	"embed"
	"hash/fnv"
	"html/template"
	"io"
	"net/http"
	"path"
	"strconv"
	"sync"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// page is the content of a page, without its [frame]. Each part is made by the template
// "name.ID", from data.
type page struct {
	Title   string
	Live    string // the path from which the browser gets the page's changes; empty: there are none
	Refresh bool   // make the browser load the page again at once
	Parts   []part

	name   string
	status int // of HTTP
	data   any
}

// part is a piece of a page that changes as a whole. In a page for a browser that counts times
// by itself (view.live), a part whose state has not changed has the same text. So a browser
// gets only the parts that changed.
type part struct {
	ID    string
	HTML  template.HTML
	Fixed bool // it has input fields, so it does not change while the page is open
}

// parts returns parts without their text, which [page.fill] makes.
func parts(ids ...string) []part {
	all := make([]part, len(ids))
	for i, id := range ids {
		all[i].ID = id
	}
	return all
}

// frame is what stands around the content of every page of a server.
type frame struct {
	Server  string // its name, for people
	Version string
	Durable bool
	Tokens  bool   // the server asks for tokens
	User    string // the name of the caller's token; empty: nobody is signed in
	Query   string // in the search field
}

// message returns a page that says one thing. href is where a link with the text onwards leads:
// to a URL of http or https, or to /. There is no link to anything else.
func message(status int, title, text, href, onwards string) page {
	if _, ok := link(href); !ok && href != "/" {
		href = ""
	}
	return page{name: "message", status: status, Title: title, Parts: parts("text"), data: struct{ Text, Href, Onwards string }{text, href, onwards}}
}

// fill makes the text of all parts.
func (p *page) fill() error {
	for i := range p.Parts {
		var text bytes.Buffer
		if err := templates().ExecuteTemplate(&text, p.name+"."+p.Parts[i].ID, p.data); err != nil {
			return err
		}
		p.Parts[i].HTML = template.HTML(text.String())
	}
	return nil
}

// write writes the whole page as HTML.
func (p page) write(w io.Writer, f frame) error {
	if err := p.fill(); err != nil {
		return err
	}
	return templates().ExecuteTemplate(w, "layout", struct {
		page
		frame
	}{p, f})
}

//go:embed html/*.html
var htmlFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

// asset is a file that pages load. Its path changes with its text, so that a browser may keep
// it for ever.
type asset struct {
	path        string
	contentType string
	text        []byte
}

// files are the templates and the assets, once they are parsed.
var files struct {
	once      sync.Once
	templates *template.Template
	assets    map[string]asset // by name
}

func templates() *template.Template {
	files.once.Do(parse)
	return files.templates
}

// parse parses what is embedded. It panics if that is not valid.
func parse() {
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err)
	}
	contentTypes := map[string]string{
		".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
	files.assets = make(map[string]asset)
	for _, entry := range entries {
		name := entry.Name()
		text, err := assetFiles.ReadFile("assets/" + name)
		if err != nil {
			panic(err)
		}
		sum := fnv.New64a()
		sum.Write(text)
		files.assets[name] = asset{"/ui/" + strconv.FormatUint(sum.Sum64(), 36) + "/" + name, contentTypes[path.Ext(name)], text}
	}
	files.templates = template.Must(template.New("").Funcs(template.FuncMap{
		"asset":       func(name string) string { return files.assets[name].path },
		"callerOf":    pool.CallerOf,
		"many":        many,
		"owner":       ownerOf,
		"plainID":     pool.PlainID,
		"poolPath":    poolPath,
		"printable":   leaseapi.Printable,
		"query":       query,
		"requestPath": RequestPath,
		"span":        span,
	}).ParseFS(htmlFiles, "html/*.html"))
}

// assetAt returns the asset of a path; false if there is none.
func assetAt(at string) (asset, bool) {
	templates()
	a, ok := files.assets[path.Base(at)]
	return a, ok && a.path == at
}

// serve answers with the asset.
func (a asset) serve(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Type", a.contentType)
	w.Write(a.text)
}
