package docstest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docPages returns the pages for people: at the root, in docs/ and in examples/.
func docPages(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range found {
			pages = append(pages, strings.TrimPrefix(page, "../../"))
		}
	}
	if len(pages) < 10 {
		t.Fatalf("found %d pages", len(pages))
	}
	return pages
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docBlock is a block of code of a page.
type docBlock struct {
	page    string
	section string // the heading of level 2 that it stands under
	line    int    // of the page, where the block begins
	info    string // the text after the opening back quotes
	text    string
}

func (b docBlock) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// runs tells whether TestDocs runs the commands of the block.
func (b docBlock) runs() bool { return strings.HasSuffix(b.info, " run") }

// file returns the name of the file that the block is written to; "" if there is none.
func (b docBlock) file() string {
	_, name, _ := strings.Cut(b.info, " file=")
	return name
}

// first returns the first line of the block.
func (b docBlock) first() string {
	line, _, _ := strings.Cut(b.text, "\n")
	return line
}

func allDocBlocks(t *testing.T) (blocks []docBlock) {
	t.Helper()
	for _, page := range docPages(t) {
		found, err := docBlocks(page, readPage(t, page))
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, found...)
	}
	return blocks
}

var mdBlock = regexp.MustCompile("^( *)(```|~~~)(.*)$")

// docBlocks finds the blocks of code of a page, also within lists. The indentation in a list is not
// part of the block. A block that is not closed, or has indentation instead of a fence, is an
// error: a search for fences would overlook it.
func docBlocks(page, text string) (blocks []docBlock, err error) {
	var open *docBlock
	section, indent, blank := "", "", false
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		fence := mdBlock.FindStringSubmatch(line)
		switch {
		case open != nil && line == indent+"```":
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		case fence != nil && fence[2] == "```" && len(fence[1]) < 4:
			indent = fence[1]
			open = &docBlock{page: page, section: section, line: n, info: fence[3]}
		case fence != nil:
			return nil, fmt.Errorf("%s:%d: begin a block with ```, at most three spaces to the right", page, n)
		case blank && (strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")):
			return nil, fmt.Errorf("%s:%d: a block without a fence: no test would see it", page, n)
		case strings.HasPrefix(line, "## "):
			section = line[3:]
		}
		blank = line == ""
	}
	if open != nil {
		return nil, fmt.Errorf("%s: the block is not closed", open)
	}
	return blocks, nil
}

// docBlocks finds every block of code, and reports a block that it would overlook.
func TestDocBlocks(t *testing.T) {
	blocks, err := docBlocks("p", "# P\n## S\n```bash run\n$ a\n```\n\n- x\n```yaml file=f\n## b\n```\n1. y\n\n   ```sh\n   z\n   ```\n")
	if err != nil || len(blocks) != 3 || blocks[2].text != "z\n" || !blocks[0].runs() || blocks[1].file() != "f" || blocks[1].text != "## b\n" || blocks[1].section != "S" {
		t.Errorf("%v, %+v", err, blocks)
	}
	for _, hidden := range []string{"```bash\nx\n", "a\n\n    $ b\n", "a\n\n\tb\n", "~~~\nx\n~~~\n", "    ```bash\n    x\n    ```\n", "  ```bash\n  x\n```\n"} {
		if blocks, err := docBlocks("p", hidden); err == nil {
			t.Errorf("no error for %q: %+v", hidden, blocks)
		}
	}
}
