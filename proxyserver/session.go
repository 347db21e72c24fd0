package proxyserver

import (
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/leasectl/leasectl/proxyserver/config"
)

const (
	// sessionTime is how long a session lasts: a day of work.
	sessionTime = 12 * time.Hour
	// mostSessions bounds memory; beyond it the oldest session ends. Only a browser with a
	// token can begin a session.
	mostSessions = 1000
)

// sessions are the sessions of browsers that showed a token. A session has the rights of
// its token, and ends when the server no longer accepts the token, or with the process.
type sessions struct {
	mu   sync.Mutex
	byID map[[sha256.Size]byte]session // by the sum of the cookie's value
}

type session struct {
	token config.Token
	ends  time.Time
}

// begin begins a session and returns the value of its cookie, which is random and
// says nothing of the token.
func (s *sessions) begin(t config.Token, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[[sha256.Size]byte]session)
	}
	var oldest [sha256.Size]byte
	for id, other := range s.byID {
		if !now.Before(other.ends) {
			delete(s.byID, id)
		} else if first, ok := s.byID[oldest]; !ok || other.ends.Before(first.ends) {
			oldest = id
		}
	}
	if len(s.byID) >= mostSessions {
		delete(s.byID, oldest)
	}
	value := rand.Text()
	s.byID[sha256.Sum256([]byte(value))] = session{token: t, ends: now.Add(sessionTime)}
	return value
}

// find returns the token of a session, which must be one of tokens.
func (s *sessions) find(value string, tokens config.Tokens, now time.Time) (config.Token, bool) {
	id := sha256.Sum256([]byte(value))
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.byID[id]
	if ok && (!now.Before(found.ends) || !slices.Contains(tokens, found.token)) {
		delete(s.byID, id)
		return config.Token{}, false
	}
	return found.token, ok
}

// end ends a session.
func (s *sessions) end(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(value)))
}
