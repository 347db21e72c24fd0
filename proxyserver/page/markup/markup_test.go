package markup_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

func Example() {
	var b markup.Builder
	b.Put(`<a href="{}">{}</a>`, `/?q="x"&y`, "<script>")
	fmt.Println(b.HTML())
	// Output: <a href="/?q=&#34;x&#34;&amp;y">&lt;script&gt;</a>
}

// No text changes the markup around it.
func FuzzPut(f *testing.F) {
	f.Add(`"><script>alert(1)</script>`)
	f.Add("{}")
	f.Add("\x00'")
	f.Fuzz(func(t *testing.T, text string) {
		var b markup.Builder
		b.Put(`<b title="{}">{}</b>`, text, text)
		s := b.HTML().String()
		if strings.Count(s, "<") != 2 || strings.Count(s, ">") != 2 || strings.Count(s, `"`) != 2 || strings.Contains(s, "'") {
			t.Errorf("%q gives %s", text, s)
		}
	})
}

// A format that does not fit its texts is a mistake in the program.
func TestPutCounts(t *testing.T) {
	for _, texts := range [][]string{{}, {"a", "b"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d texts for one place are taken", len(texts))
				}
			}()
			new(markup.Builder).Put(`<b>{}</b>`, texts...)
		}()
	}
}
