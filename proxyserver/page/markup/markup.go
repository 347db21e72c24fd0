// Package markup writes HTML that is escaped by construction: markup comes only from constants
// of the program, and every other text is escaped.
//
//	var b markup.Builder
//	b.Put(`<a href="{}">{}</a>`, url, title)
//
// The type of a format is not exported, so only a constant can be one: a text that was computed,
// or that came from a client, does not compile there. Each {} stands for the next text. The five
// characters that could end a text or a quoted attribute are escaped in it. So a {} may stand
// between tags and in attributes with double quotes, and nowhere else. The scheme of a link is
// not checked here: the caller must check it.
//
// html/template, or a library above it, is not used, because importing html/template alone costs
// each start of every command a tenth of a millisecond.
package markup

import (
	"html"
	"strings"
)

// constant is a text from the source of the program.
type constant string

// HTML is finished markup. Only a [Builder] makes it.
type HTML struct{ text string }

// String returns the markup.
func (h HTML) String() string { return h.text }

// Builder collects markup. The zero Builder is empty.
type Builder struct{ buf strings.Builder }

// Put adds format, in which each {} stands for the next of texts. It panics if there are not as
// many {} as texts.
func (b *Builder) Put(format constant, texts ...string) {
	rest := string(format)
	for _, text := range texts {
		before, after, ok := strings.Cut(rest, "{}")
		if !ok {
			panic("markup: more texts than places for them: " + string(format))
		}
		b.buf.WriteString(before)
		b.buf.WriteString(html.EscapeString(text))
		rest = after
	}
	if strings.Contains(rest, "{}") {
		panic("markup: more places than texts for them: " + string(format))
	}
	b.buf.WriteString(rest)
}

// Add adds finished markup.
func (b *Builder) Add(h HTML) { b.buf.WriteString(h.text) }

// HTML returns the markup that was added so far.
func (b *Builder) HTML() HTML { return HTML{b.buf.String()} }
