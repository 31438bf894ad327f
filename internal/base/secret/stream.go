package secret

import (
	"bytes"
	"io"
)

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
	longest := 0
	for _, form := range known.all {
		longest = max(longest, len(form))
	}
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
