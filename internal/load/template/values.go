package template

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// Use is where a text is written to, which decides how values are.
type Use uint8

const (
	Body   Use = iota // as they are
	Header            // without control characters
	URL               // with all but unreserved characters percent-encoded (RFC 3986 section 2.3)
)

// Values are the inputs from which one request gets its values.
type Values struct {
	Seed   uint64 // of the load
	Number int64  // of the request, from 1
}

// Text is a text whose expressions are bound to their values. It is read-only.
type Text struct {
	parts []part
}

// part writes a part of a text. place tells apart equal expressions of one request.
type part struct {
	kind      kind
	text      []byte
	place     uint64
	low, size uint64 // of a random number
	column    []string
	table     uint64 // the file's number: expressions of one file have the same row
	shuffled  bool
}

// Compile binds the expressions of a text to the tables of d. place is the number of
// expressions in the request's texts before this one.
func (d *Data) Compile(text string, use Use, place int) (t Text, expressions int, err error) {
	pieces, err := parse(text, strict.Position{File: "template", Line: 1, Column: 1})
	if err != nil {
		return t, 0, err
	}
	var parts []Text
	for _, p := range pieces {
		q := part{kind: p.kind, shuffled: p.shuffled}
		switch p.kind {
		case literal:
			if use == URL {
				p.text = requestText(p.text)
			}
			parts = append(parts, Literal(p.text))
			continue
		case random:
			q.low, q.size = uint64(p.low), uint64(p.high-p.low)+1
		case field:
			if q.column, q.table, err = d.values(p.file, p.column, use); err != nil {
				return t, 0, err
			}
		}
		expressions++
		q.place = uint64(place + expressions)
		parts = append(parts, Text{[]part{q}})
	}
	return Join(parts...), expressions, nil
}

// Texts are the parts of a request that may have expressions.
type Texts struct {
	Path   Text   // with the query
	Values []Text // of the headers, in their order
	Body   Text
	Bodily bool // it has a body
}

// Literal is a text without expressions.
func Literal(text string) Text { return Text{[]part{{text: []byte(text)}}} }

// Join is one text after the other.
func Join(texts ...Text) (all Text) {
	for _, t := range texts {
		for _, p := range t.parts {
			if n := len(all.parts); n > 0 && p.kind == literal && all.parts[n-1].kind == literal {
				p.text = slices.Concat(all.parts[n-1].text, p.text)
				all.parts[n-1] = p
				continue
			}
			all.parts = append(all.parts, p)
		}
	}
	return all
}

// Fixed is the text, if it has no expression.
func (t *Text) Fixed() (text []byte, fixed bool) {
	switch {
	case len(t.parts) == 0:
		return nil, true
	case len(t.parts) == 1 && t.parts[0].kind == literal:
		return t.parts[0].text, true
	}
	return nil, false
}

// Append appends the text with the values of a request.
func (t *Text) Append(b []byte, v *Values) []byte {
	for i := range t.parts {
		p := &t.parts[i]
		switch p.kind {
		case literal:
			b = append(b, p.text...)
		case sequence:
			b = strconv.AppendInt(b, v.Number, 10)
		case uuid:
			b = appendUUID(b, v.draw(2*p.place), v.draw(2*p.place+1))
		case random:
			b = strconv.AppendInt(b, int64(p.low+v.draw(2*p.place)%p.size), 10)
		case now:
			b = time.Now().UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
		case field:
			row := uint64(v.Number - 1)
			if p.shuffled {
				row = v.draw(tableDraw + p.table)
			}
			b = append(b, p.column[row%uint64(len(p.column))]...)
		}
	}
	return b
}

// tableDraw separates the draws of rows from the draws of expressions.
const tableDraw = 1 << 40

// draw is a random number of a request: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA
// 2014) over seed, number and the number of the draw.
func (v *Values) draw(n uint64) uint64 {
	return mix(mix(v.Seed+0x9e3779b97f4a7c15*uint64(v.Number)) + 0xd1342543de82ef95*(n+1))
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// appendUUID appends a UUID of version 4 (RFC 9562 section 5.4).
func appendUUID(b []byte, high, low uint64) []byte {
	high = high&^0xf000 | 0x4000
	low = low&^(3<<62) | 1<<63
	var raw [16]byte
	for i := range 8 {
		raw[i], raw[8+i] = byte(high>>(56-8*i)), byte(low>>(56-8*i))
	}
	for _, group := range [][]byte{raw[:4], raw[4:6], raw[6:8], raw[8:10]} {
		b = append(hex.AppendEncode(b, group), '-')
	}
	return hex.AppendEncode(b, raw[10:])
}

// encoded is a value for a use.
func encoded(value string, use Use) (string, error) {
	switch use {
	case Header:
		if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return "", fmt.Errorf("%.40q has control characters, such as line breaks, and is used in a header", value)
		}
	case URL:
		return percentEncoded(value), nil
	}
	return value, nil
}

func percentEncoded(value string) string {
	return percentEncode(value, func(c byte) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
	})
}

// requestText is a literal part of a path and query: what would break the request line is encoded.
func requestText(text string) string {
	return percentEncode(text, func(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '#' })
}

func percentEncode(text string, keep func(byte) bool) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; keep(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
