package proxyclient

import "sync/atomic"

// servers are the URLs of the servers of one proxy. One server leads; the others refuse
// calls, and may name the leader. Mostly there is only one URL.
type servers struct {
	bases   []string     // URLs without a slash at the end; paths are appended
	current atomic.Int64 // index of the server to ask
}

// several reports whether there is more than one server.
func (s *servers) several() bool { return len(s.bases) > 1 }

// ask returns the server to ask, and its index.
func (s *servers) ask() (index int, base string) {
	index = int(s.current.Load())
	return index, s.bases[index]
}

// leave switches from the server with that index to another one: to leader if that is a
// URL of the list, else to the next. A leader outside of the list is not asked, since
// it would get the token.
func (s *servers) leave(index int, leader string) {
	next := (index + 1) % len(s.bases)
	for i, base := range s.bases {
		if i != index && leader != "" && base == baseOf(leader) {
			next = i
		}
	}
	s.current.CompareAndSwap(int64(index), int64(next)) // fails if another call has switched already
}

// baseOf returns the URL of a server in the form of bases; "" if it is no URL.
func baseOf(text string) string {
	u, err := ParseURL(text)
	if err != nil {
		return ""
	}
	return spelling(u)
}
