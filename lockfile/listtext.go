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
	grants []Grant // those that the lines are of, in their order
}

func (t listText) same(o listText) bool {
	return bytes.Equal(t.lines, o.lines) && reflect.DeepEqual(t.grants, o.grants)
}

// knownLines is what is known of the lines of each name, from the first line on.
type knownLines map[string][]Grant

// next returns the grant that the next line of a name is of; if nothing is known of that,
// it has a name only.
func (k knownLines) next(name string) Grant {
	grants := k[name]
	if len(grants) == 0 {
		return Grant{Lease: Lease{Name: name}}
	}
	k[name] = grants[1:]
	return grants[0]
}

// known pairs lines and grants. If more lines than grants of a name are there, the first
// ones were added by a program that says nothing more, or so long ago that it was left
// out; they get a name only. If fewer, somebody took lines out. Those of the newest
// grants are assumed to be left, since only the newest grant of a name can be held.
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

// without returns the lines, and what is known of them, after grants were taken out.
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
