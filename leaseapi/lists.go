package leaseapi

import "fmt"

// mostElements is how many elements the lists of an answer, or of a file of leases, have at most. Each of ours is an
// object of more than 60 bytes. An empty one has 2, and hundreds once it is decoded, as has each element of a wrong
// type: 1 MiB would become 500.
const mostElements = MaxBody / 50

// CheckLists refuses JSON whose lists have so many elements that decoding it would take many times its size. Texts in
// the list names or released of the whole do not count: they take little more than their bytes. JSON that is not valid
// may pass.
func CheckLists(text []byte) error {
	if len(text) <= 2*mostElements { // as nearly always; an element and its comma have 2 bytes
		return nil
	}
	if n := elementsIn(text); n > mostElements {
		return fmt.Errorf("%d elements in its lists: at most %d are read", n, mostElements)
	}
	return nil
}

// elementsIn returns how many objects, lists, and elements of lists before a comma text has, if that is JSON.
func elementsIn(text []byte) (n int) {
	var open []byte // brackets; 'n' is that of a list of names
	var last []byte // text
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			begin := i + 1
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			last = text[begin:min(i, len(text))]
		case '{', '[':
			if n++; c == '[' && len(open) == 1 && (string(last) == "names" || string(last) == "released") {
				c = 'n'
			}
			open = append(open, c)
		case '}', ']':
			open = open[:max(0, len(open)-1)]
		case ',':
			if len(open) == 0 {
				continue // no JSON
			}
			in, before := open[len(open)-1], text[i-1]
			if in == '[' && before != '}' || in == 'n' && before != '"' {
				n++
			}
		}
	}
	return n
}
