package serve

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	sessionTime  = 12 * time.Hour
	mostSessions = 1000
)

// sessions are browsers that have given the token. Their cookies have random identifiers, so that a cookie that leaks is
// not the token. A restart ends all. Identifiers are kept as digests.
type sessions struct {
	mu   sync.Mutex
	ends map[[sha256.Size]byte]time.Time
}

// begin returns the identifier of a new session. Above mostSessions it ends the one that would end first.
func (s *sessions) begin(now time.Time) string {
	id := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends == nil {
		s.ends = map[[sha256.Size]byte]time.Time{}
	}
	var oldest *[sha256.Size]byte
	for of, end := range s.ends {
		if !end.After(now) {
			delete(s.ends, of)
		} else if oldest == nil || end.Before(s.ends[*oldest]) {
			oldest = &of
		}
	}
	if len(s.ends) >= mostSessions {
		delete(s.ends, *oldest)
	}
	s.ends[sha256.Sum256([]byte(id))] = now.Add(sessionTime)
	return id
}

// has reports whether a session has begun and not ended.
func (s *sessions) has(id string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends[sha256.Sum256([]byte(id))].After(now)
}
