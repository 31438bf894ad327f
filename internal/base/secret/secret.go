// Package secret removes values that no file of a run may contain, such as those of ${env:NAME} in headers.
package secret

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
)

const (
	// shortest is the length in bytes below which a value is not removed: it would be found in ordinary words.
	shortest = 6
	// Mark is in the place of a secret.
	Mark = "(secret)"
)

var known struct {
	sync.RWMutex
	all [][]byte // every form of each value, the longest first
}

// Add makes a value known. JSON and URLs write some characters of it in another way.
func Add(value string) {
	if len(value) < shortest {
		return
	}
	known.Lock()
	defer known.Unlock()
	quoted, err := json.Marshal(value)
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	if err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	for _, f := range forms {
		if !slices.ContainsFunc(known.all, func(have []byte) bool { return string(have) == f }) {
			known.all = append(known.all, []byte(f))
		}
	}
	slices.SortStableFunc(known.all, func(a, b []byte) int { return len(b) - len(a) })
}

// Any reports whether a value is known.
func Any() bool {
	known.RLock()
	defer known.RUnlock()
	return len(known.all) > 0
}

// In reports whether a text has a known value.
func In(text []byte) bool {
	known.RLock()
	defer known.RUnlock()
	return slices.ContainsFunc(known.all, func(form []byte) bool { return bytes.Contains(text, form) })
}

// Redact replaces known values in a text by [Mark].
func Redact(text []byte) []byte {
	known.RLock()
	defer known.RUnlock()
	for _, form := range known.all {
		text = bytes.ReplaceAll(text, form, []byte(Mark))
	}
	return text
}

var literals = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// RedactJSON replaces known values in the strings of a JSON text. Numbers and times remain as they are.
func RedactJSON(text []byte) []byte {
	if !In(text) {
		return text
	}
	return literals.ReplaceAllFunc(text, func(of []byte) []byte {
		if _, err := time.Parse(time.RFC3339Nano, string(of[1:len(of)-1])); err == nil {
			return of
		}
		return slices.Concat([]byte(`"`), Redact(of[1:len(of)-1]), []byte(`"`))
	})
}

// piece is the size of the part of a stream that is in memory.
const piece = 1 << 20

// Copy copies a stream of any length, replaces known values by [Mark], and reports whether there were any.
func Copy(to io.Writer, from io.Reader) (found bool, err error) {
	var kept []byte
	read := make([]byte, piece)
	for {
		n, err := io.ReadFull(from, read)
		kept = append(kept, read[:n]...)
		end := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !end {
			return found, err
		}
		whole := len(kept)
		if !end {
			whole = divide(kept)
		}
		text := Redact(kept[:whole])
		found = found || !bytes.Equal(text, kept[:whole])
		if _, err := to.Write(text); err != nil || end {
			return found, err
		}
		kept = bytes.Clone(kept[whole:])
	}
}

// divide is a place in a text at which no known value is divided, nor one that ends after the text.
func divide(text []byte) int {
	known.RLock()
	defer known.RUnlock()
	longest := lists.Most(known.all, func(form []byte) int { return len(form) })
	at := max(0, len(text)-longest)
	for moved := true; moved; {
		moved = false
		for _, form := range known.all {
			from := max(0, at-len(form)+1)
			if i := bytes.Index(text[from:min(len(text), at+len(form)-1)], form); i >= 0 {
				at, moved = from+i, true
			}
		}
	}
	return at
}
