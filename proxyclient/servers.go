package proxyclient

import "sync/atomic"

// servers are the URLs of one proxy: of the servers behind them one leads, and the
// others say so. Mostly it is one URL.
type servers struct {
	bases   []string     // URLs that paths are appended to
	current atomic.Int64 // index of the one to ask
}

// several reports whether there is a choice.
func (s *servers) several() bool { return len(s.bases) > 1 }

// ask returns the server to ask, and its index.
func (s *servers) ask() (index int, base string) {
	index = int(s.current.Load())
	return index, s.bases[index]
}

// leave makes another server than the one with that index the one to ask: leader, if
// that is the URL of one, else the next. A leader that is not in the list is not
// asked: it would be sent the token.
func (s *servers) leave(index int, leader string) {
	next := (index + 1) % len(s.bases)
	for i, base := range s.bases {
		if i != index && leader != "" && base == baseOf(leader) {
			next = i
		}
	}
	s.current.CompareAndSwap(int64(index), int64(next)) // or another call has left it
}

// baseOf is how the URL of a server stands in the list.
func baseOf(text string) string {
	u, err := ParseURL(text)
	if err != nil {
		return ""
	}
	return trimmed(u)
}
