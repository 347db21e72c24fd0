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

// pair returns for each name what is known of its lines, from the first line on. If
// more lines than grants are there, the first ones were added by a program that says
// nothing more, or so long ago that it was left out; they get a name only. If fewer,
// somebody took lines out; those of the newest grants are assumed to be left, since
// only the newest grant of a name can be held.
func (t listText) pair() map[string][]Grant {
	count := make(map[string]int)
	for line := range strings.Lines(string(t.lines)) {
		count[nameOn(line)]++
	}
	known := make(map[string][]Grant)
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
	left, of := slices.Clone(grants), t.pair()
	for line := range strings.Lines(string(t.lines)) {
		g := Grant{Lease: Lease{Name: nameOn(line)}}
		if all := of[g.Name]; len(all) > 0 {
			g, of[g.Name] = all[0], all[1:]
		}
		if i := slices.IndexFunc(left, g.mayBe); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		lines = append(lines, line...)
		known = append(known, identified([]Grant{g})...)
	}
	return lines, known
}
