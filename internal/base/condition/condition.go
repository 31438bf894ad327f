// Package condition reads conditions of the form "figure op limit" from left to right: expectations, gates and objectives.
package condition

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tare-mesh/tare/internal/base/lists"
)

// Comparison compares a value with a limit. The zero value is none.
type Comparison struct {
	Sign  string
	Holds func(value, limit float64) bool
}

// Upper reports whether the limit is an upper one.
func (c Comparison) Upper() bool { return strings.HasPrefix(c.Sign, "<") }

var comparisons = []Comparison{
	{">=", func(v, limit float64) bool { return v >= limit }},
	{"<=", func(v, limit float64) bool { return v <= limit }},
	{"==", func(v, limit float64) bool { return v == limit }},
	{"!=", func(v, limit float64) bool { return v != limit }},
	{">", func(v, limit float64) bool { return v > limit }},
	{"<", func(v, limit float64) bool { return v < limit }},
}

// Compare returns the comparison with a sign.
func Compare(sign string) (Comparison, bool) {
	return lists.First(comparisons, func(c Comparison) bool { return c.Sign == sign })
}

// IsSign reports whether a character is part of signs.
func IsSign(r rune) bool { return strings.ContainsRune("<>=!", r) }

// Text is a condition, and how far it was read.
type Text struct {
	text string
	at   int // bytes
}

// New begins to read a condition.
func New(text string) Text { return Text{text: text} }

// Column is the place of the next character, from 1, in characters.
func (t *Text) Column() int { return utf8.RuneCountInString(t.text[:t.at]) + 1 }

// While reads the characters for which in returns true.
func (t *Text) While(in func(rune) bool) string {
	rest := t.text[t.at:]
	if end := strings.IndexFunc(rest, func(r rune) bool { return !in(r) }); end >= 0 {
		rest = rest[:end]
	}
	t.at += len(rest)
	return rest
}

// Space skips spaces.
func (t *Text) Space() { t.While(unicode.IsSpace) }

// Ended reports whether all was read.
func (t *Text) Ended() bool { return t.at == len(t.text) }

// Accept reads a text if it comes next, and reports whether it did.
func (t *Text) Accept(text string) bool {
	if !strings.HasPrefix(t.text[t.at:], text) {
		return false
	}
	t.at += len(text)
	return true
}

// Rest is all that was not read, quoted for messages.
func (t *Text) Rest() string {
	if t.Ended() {
		return "the end"
	}
	return strconv.Quote(t.text[t.at:])
}

// Next is the next character, quoted for messages.
func (t *Text) Next() string {
	if t.Ended() {
		return "the end"
	}
	r, _ := utf8.DecodeRuneInString(t.text[t.at:])
	return strconv.QuoteRune(r)
}
