package local

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// secrets are the random values in a mesh's templates, by name. They are written to the
// deployment's runtime directory only, and removed with it.
type secrets struct {
	mu     sync.Mutex
	values map[string]string
}

func newSecrets() *secrets { return &secrets{values: map[string]string{}} }

// get is a UUID of 122 random bits (RFC 9562, version 4), the same for the same name.
func (s *secrets) get(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values[name] == "" {
		var b [16]byte
		_, _ = rand.Read(b[:]) // it never fails
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
		s.values[name] = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	}
	return s.values[name]
}

func (s *secrets) redact(text []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		text = bytes.ReplaceAll(text, []byte(s.values[name]), []byte("SECRET-"+name))
	}
	return text
}
