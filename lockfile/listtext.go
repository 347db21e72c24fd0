package lockfile

import (
	"bytes"
	"io/fs"
	"reflect"
	"slices"
	"strings"
)

// listText is the content of a [List]: its lines, and what is known of them.
type listText struct {
	lines  []byte
	mode   fs.FileMode
	grants []Grant // of the lines, in their order; there may be more or fewer than lines
}

func (t listText) same(o listText) bool {
	return bytes.Equal(t.lines, o.lines) && reflect.DeepEqual(t.grants, o.grants)
}

// knownLines are the grants of the lines of each name, from the first line on.
type knownLines map[string][]Grant

// next returns the grant of the next line of a name. If only the name is known, the grant has
// nothing else.
func (k knownLines) next(name string) Grant {
	grants := k[name]
	if len(grants) == 0 {
		return Grant{Lease: Lease{Name: name}}
	}
	k[name] = grants[1:]
	return grants[0]
}

// known pairs lines and grants. If a name has more lines than grants, its first lines were
// added by a program that writes names only, or so long ago that their grants were left out;
// they get a grant with a name only. If a name has fewer lines than grants, somebody removed
// lines. The lines of the newest grants are assumed to be left, since only the newest grant of
// a name can be held.
func (t listText) known() knownLines {
	count := make(map[string]int)
	for line := range strings.Lines(string(t.lines)) {
		count[nameOn(line)]++
	}
	known := make(knownLines)
	for _, g := range t.grants {
		known[g.Name] = append(known[g.Name], g)
	}
	for name, of := range known {
		if missing := count[name] - len(of); missing > 0 {
			unknown := slices.Repeat([]Grant{{Lease: Lease{Name: name}}}, missing)
			known[name] = append(unknown, of...)
		} else {
			known[name] = of[-missing:]
		}
	}
	return known
}

// without returns the lines and their grants after grants were removed.
func (t listText) without(grants []Grant) (lines []byte, known []Grant) {
	lines = []byte{}
	left, all := slices.Clone(grants), t.known()
	for line := range strings.Lines(string(t.lines)) {
		g := all.next(nameOn(line))
		if i := slices.IndexFunc(left, g.mayBe); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		lines = append(lines, line...)
		if g.identified() {
			known = append(known, g)
		}
	}
	return lines, known
}
