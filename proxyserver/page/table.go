package page

import "github.com/leasectl/leasectl/proxyserver/page/markup"

// RowsAPage is how many leases, and how many waiters, a page lists.
const RowsAPage = 100

// table writes a table. On a narrow screen the cells of a row stand below each other, each with
// the head of its column. Browsers then no longer treat the element as a table, so the roles
// are written out.
type table struct {
	b     *markup.Builder
	heads []string
	at    int // the index of the next cell in its row
}

// newTable begins a table. Only screen readers show the caption.
func newTable(b *markup.Builder, caption string, heads ...string) *table {
	b.Put(`<table role="table"><caption class="hidden">{}</caption><thead role="rowgroup"><tr role="row">`, caption)
	for _, head := range heads {
		b.Put(`<th role="columnheader" scope="col">{}</th>`, head)
	}
	b.Put(`</tr></thead><tbody role="rowgroup">`)
	return &table{b: b, heads: heads}
}

// row ends the last row, and begins one of a class.
func (t *table) row(class string) {
	t.endRow()
	t.b.Put(`<tr role="row" class="{}">`, class)
}

func (t *table) endRow() {
	if t.at > 0 {
		t.b.Put("</tr>\n")
		t.at = 0
	}
}

// cell writes the next cell of the row; the first is the row's head.
func (t *table) cell(class string, write func(b *markup.Builder)) {
	if t.at == 0 {
		t.b.Put(`<th role="rowheader" scope="row" class="{}" data-label="{}">`, class, t.heads[0])
		write(t.b)
		t.b.Put(`</th>`)
	} else {
		t.b.Put(`<td role="cell" class="{}" data-label="{}"><div>`, class, t.heads[t.at])
		write(t.b)
		t.b.Put(`</div></td>`)
	}
	t.at++
}

func (t *table) text(class, text string) {
	t.cell(class, func(b *markup.Builder) { b.Put("{}", text) })
}

func (t *table) end() {
	t.endRow()
	t.b.Put("</tbody></table>\n")
}

// more writes a link to the next piece of a list.
func more(b *markup.Builder, href, text string) {
	b.Put(`<p class="more"><a href="{}">{}</a></p>`, href, text)
}
