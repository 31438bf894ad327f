package check

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tare-mesh/tare/internal/load"
)

// maxNesting bounds the objects and arrays within one another, and a body beyond it is not
// JSON.
const maxNesting = 1024

type jsonState uint8

const (
	jsonValue    jsonState = iota // a value must begin
	jsonElement                   // the first of an array, or its end
	jsonFirstKey                  // of an object, or its end
	jsonKey
	jsonColon
	jsonAfter // a value has ended
	jsonString
	jsonEscape
	jsonHex
	jsonLiteral
	jsonMinus // of a number: what has been seen of it
	jsonZero
	jsonDigits
	jsonPoint
	jsonFraction
	jsonE
	jsonSign
	jsonExponent
	jsonNone // it is not JSON
)

// jsonScanner reads a JSON document (RFC 8259) from pieces of any size and records
// which of the configured fields it has. It stores only the current key, while that
// may match, and allocates nothing. It accepts the same documents as encoding/json,
// except nesting beyond maxNesting.
type jsonScanner struct {
	paths   []load.JsonPath
	longest int // key of a path, bytes

	state   jsonState
	depth   int // of open objects and arrays
	objects [maxNesting / 64]uint64
	at      []int  // of each path, how many of its keys lead to the current object
	pending uint64 // paths whose next key is the one that was just read
	opened  uint64 // paths whose field is an object or array that has just begun
	found   uint64 // paths whose field exists and is not empty

	inKey    bool // the string is a key
	matching bool // which may be one asked for
	key      []byte
	high     rune // the first half of a surrogate pair
	hex      rune
	left     int    // digits of hex yet to come
	rest     string // of a literal
}

func newJSONScanner(paths []load.JsonPath) *jsonScanner {
	j := &jsonScanner{paths: paths, at: make([]int, len(paths))}
	for _, p := range paths {
		for _, key := range p {
			j.longest = max(j.longest, len(key))
		}
	}
	j.key = make([]byte, 0, j.longest+2*utf8.UTFMax)
	return j
}

// reset prepares for the next document.
func (j *jsonScanner) reset() {
	clear(j.at)
	j.state, j.depth, j.pending, j.opened, j.found, j.inKey, j.high = jsonValue, 0, 0, 0, 0, false, 0
}

// whole reports whether the bytes so far are one JSON document.
func (j *jsonScanner) whole() bool {
	switch j.state {
	case jsonAfter, jsonZero, jsonDigits, jsonFraction, jsonExponent:
		return j.depth == 0
	}
	return false
}

// has reports whether the document has a path's field, by the path's number: any value
// but null, an empty list and an empty object, which many programs write where
// they have no value.
func (j *jsonScanner) has(path int) bool { return j.found&(1<<path) != 0 }

func (j *jsonScanner) feed(b []byte) {
	for i := 0; i < len(b); i++ {
		if j.state == jsonString {
			n := 0
			for n < len(b)-i && b[i+n] != '"' && b[i+n] != '\\' && b[i+n] >= ' ' {
				n++
			}
			j.keyText(b[i : i+n])
			if i += n; i == len(b) {
				return
			}
		}
		j.feedByte(b[i])
		if j.state == jsonNone {
			return
		}
	}
}

// feedByte handles one byte or, within a string, one that is not of its text.
func (j *jsonScanner) feedByte(c byte) {
	switch j.state {
	case jsonString:
		switch c {
		case '"':
			j.stringEnds()
		case '\\':
			j.state = jsonEscape
		default:
			j.state = jsonNone
		}
	case jsonEscape:
		j.escape(c)
	case jsonHex:
		j.hexDigit(c)
	case jsonLiteral:
		if c != j.rest[0] {
			j.state = jsonNone
		} else if j.rest = j.rest[1:]; j.rest == "" {
			j.state = jsonAfter
		}
	case jsonMinus, jsonZero, jsonDigits, jsonPoint, jsonFraction, jsonE, jsonSign, jsonExponent:
		j.number(c)
	default:
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			j.token(c)
		}
	}
}

// token handles the first byte of what may stand between values and within none.
func (j *jsonScanner) token(c byte) {
	switch {
	case j.state == jsonColon && c == ':':
		j.state = jsonValue
	case (j.state == jsonKey || j.state == jsonFirstKey) && c == '"':
		j.found |= j.opened
		j.opened = 0
		j.state, j.inKey, j.key, j.matching = jsonString, true, j.key[:0], j.matchesAny()
	case (j.state == jsonFirstKey || j.state == jsonAfter && j.inObject()) && c == '}',
		(j.state == jsonElement || j.state == jsonAfter && j.depth > 0 && !j.inObject()) && c == ']':
		j.opened = 0
		j.closes()
	case j.state == jsonAfter && j.depth > 0 && c == ',':
		if j.state = jsonValue; j.inObject() {
			j.state = jsonKey
		}
	case j.state == jsonValue || j.state == jsonElement:
		j.found |= j.opened
		j.opened = 0
		j.begins(c)
	default:
		j.state = jsonNone
	}
}

// begins handles the first byte of a value.
func (j *jsonScanner) begins(c byte) {
	pending := j.pending
	j.pending = 0
	if c == '{' || c == '[' {
		j.opens(c == '{', pending)
		return
	}
	if c != 'n' {
		j.found |= pending & j.last()
	}
	switch {
	case c == '"':
		j.state, j.inKey, j.matching = jsonString, false, false
	case c == 't':
		j.state, j.rest = jsonLiteral, "rue"
	case c == 'f':
		j.state, j.rest = jsonLiteral, "alse"
	case c == 'n':
		j.state, j.rest = jsonLiteral, "ull"
	case c == '-':
		j.state = jsonMinus
	case c == '0':
		j.state = jsonZero
	case c >= '1' && c <= '9':
		j.state = jsonDigits
	default:
		j.state = jsonNone
	}
}

// opens begins an object or an array, to which the pending paths lead.
func (j *jsonScanner) opens(object bool, pending uint64) {
	if j.depth == maxNesting {
		j.state = jsonNone
		return
	}
	last := j.last()
	j.opened = pending & last
	word, bit := j.depth/64, uint64(1)<<(j.depth%64)
	if object {
		for i := range j.paths {
			if pending&^last&(1<<i) != 0 {
				j.at[i] = j.depth
			}
		}
		j.state, j.objects[word] = jsonFirstKey, j.objects[word]|bit
	} else {
		j.state, j.objects[word] = jsonElement, j.objects[word]&^bit
	}
	j.depth++
}

// last returns paths whose final key is at the current depth.
func (j *jsonScanner) last() (paths uint64) {
	for i, p := range j.paths {
		if len(p) == j.depth {
			paths |= 1 << i
		}
	}
	return paths
}

func (j *jsonScanner) closes() {
	j.depth--
	for i := range j.at {
		j.at[i] = max(0, min(j.at[i], j.depth-1))
	}
	j.state = jsonAfter
}

func (j *jsonScanner) inObject() bool {
	top := j.depth - 1
	return top >= 0 && j.objects[top/64]&(1<<(top%64)) != 0
}

// matchesAny reports whether this object may have the next key of any path.
func (j *jsonScanner) matchesAny() bool {
	for i := range j.paths {
		if j.expectsKey(i) {
			return true
		}
	}
	return false
}

// keyText takes some text of a string.
func (j *jsonScanner) keyText(b []byte) {
	if !j.matching || len(b) == 0 {
		return
	}
	j.endSurrogate()
	j.key = append(j.key, b[:min(len(b), max(0, j.longest+1-len(j.key)))]...)
}

// escapes are the characters after a backslash, except u, and their meanings.
const (
	escapes = `"\/bfnrt`
	escaped = "\"\\/\b\f\n\r\t"
)

func (j *jsonScanner) escape(c byte) {
	if c == 'u' {
		j.state, j.hex, j.left = jsonHex, 0, 4
		return
	}
	i := strings.IndexByte(escapes, c)
	if i < 0 {
		j.state = jsonNone
		return
	}
	j.endSurrogate()
	j.keyRune(rune(escaped[i]))
	j.state = jsonString
}

func (j *jsonScanner) hexDigit(c byte) {
	switch {
	case c >= '0' && c <= '9':
		j.hex = j.hex<<4 | rune(c-'0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		j.hex = j.hex<<4 | rune(c|0x20-'a'+10)
	default:
		j.state = jsonNone
		return
	}
	if j.left--; j.left > 0 {
		return
	}
	j.state = jsonString
	const low, lowEnd = 0xdc00, 0xdfff
	switch {
	case j.high != 0 && j.hex >= low && j.hex <= lowEnd:
		r := utf16.DecodeRune(j.high, j.hex)
		j.high = 0
		j.keyRune(r)
	case j.hex >= 0xd800 && j.hex < low:
		j.endSurrogate()
		j.high = j.hex
	default:
		j.endSurrogate()
		j.keyRune(j.hex) // the second half alone is written as U+FFFD
	}
}

func (j *jsonScanner) stringEnds() {
	j.endSurrogate()
	if !j.inKey {
		j.state = jsonAfter
		return
	}
	j.state, j.inKey = jsonColon, false
	if !j.matching {
		return
	}
	for i, p := range j.paths {
		if j.expectsKey(i) && string(j.key) == p[j.depth-1] {
			j.pending |= 1 << i
		}
	}
}

// endSurrogate ends a surrogate pair of which only the first half has come.
func (j *jsonScanner) endSurrogate() {
	if j.high != 0 {
		j.high = 0
		j.keyRune(utf8.RuneError)
	}
}

func (j *jsonScanner) keyRune(r rune) {
	if j.matching && len(j.key) <= j.longest {
		j.key = utf8.AppendRune(j.key, r)
	}
}

// expectsKey reports whether this object may have the next key of path i.
func (j *jsonScanner) expectsKey(i int) bool {
	return j.at[i] == j.depth-1 && len(j.paths[i]) >= j.depth
}

// number handles a byte that may go on with a number or end it.
func (j *jsonScanner) number(c byte) {
	switch {
	case c >= '0' && c <= '9':
		switch j.state {
		case jsonMinus:
			if j.state = jsonDigits; c == '0' {
				j.state = jsonZero
			}
		case jsonZero:
			j.state = jsonNone
		case jsonPoint:
			j.state = jsonFraction
		case jsonE, jsonSign:
			j.state = jsonExponent
		}
	case c == '.' && (j.state == jsonZero || j.state == jsonDigits):
		j.state = jsonPoint
	case c|0x20 == 'e' && (j.state == jsonZero || j.state == jsonDigits || j.state == jsonFraction):
		j.state = jsonE
	case (c == '+' || c == '-') && j.state == jsonE:
		j.state = jsonSign
	case j.state == jsonZero || j.state == jsonDigits || j.state == jsonFraction || j.state == jsonExponent:
		j.state = jsonAfter
		j.feedByte(c)
	default:
		j.state = jsonNone
	}
}
