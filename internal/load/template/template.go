// Package template parses texts with expressions, such as {{uuid}}, and writes them with the
// values of one request. The values are a function of the load's seed and the request's number.
package template

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// Delimiters of an expression. {{"{{"}} is the first of them as text.
const (
	open   = "{{"
	closed = "}}"
)

// Error is a mistake in a text or in a file of values.
type Error struct {
	strict.Problem
	// Expression is the one with the mistake, as it is written, empty if the mistake is in a file
	// of values.
	Expression string
}

type kind uint8

const (
	literal kind = iota
	sequence
	uuid
	random
	now
	field // of a CSV file
)

// piece is a part of a text: a literal, or an expression.
type piece struct {
	kind      kind
	text      string          // of a literal
	at        strict.Position // of an expression
	source    string          // as it is written
	begin     int             // its offset in the text
	low, high int64           // of a random number
	file      string          // of a field
	column    string
	shuffled  bool // rows at random
}

// function is an expression: its form, and how its arguments are read.
type function struct {
	kind kind
	form string
	read func(p *piece, args []string) bool
}

var functions = map[string]function{
	"seq":    {sequence, "{{seq}}", none},
	"uuid":   {uuid, "{{uuid}}", none},
	"now":    {now, "{{now}}", none},
	"random": {random, "{{random 1 100}}", readRange},
	"csv":    {field, `{{csv "users.csv" "id"}}, or {{csv "users.csv" "id" random}}`, readField},
}

func none(_ *piece, args []string) bool { return len(args) == 0 }

// maxRandom bounds the ends of a range.
const maxRandom = 1 << 53

func readRange(p *piece, args []string) bool {
	if len(args) != 2 {
		return false
	}
	var errLow, errHigh error
	p.low, errLow = strconv.ParseInt(args[0], 10, 64)
	p.high, errHigh = strconv.ParseInt(args[1], 10, 64)
	return errLow == nil && errHigh == nil && p.low <= p.high && p.low >= -maxRandom && p.high <= maxRandom
}

func readField(p *piece, args []string) bool {
	if len(args) != 2 && (len(args) != 3 || args[2] != "random") {
		return false
	}
	var errFile, errColumn error
	p.file, errFile = strconv.Unquote(args[0])
	p.column, errColumn = strconv.Unquote(args[1])
	p.shuffled = len(args) == 3
	return errFile == nil && errColumn == nil && p.file != ""
}

// Has reports whether a text has an expression, or the beginning of one.
func Has(text string) bool { return strings.Contains(text, open) }

// Quote is a text without expressions that becomes the given one.
func Quote(text string) string { return strings.ReplaceAll(text, open, `{{"{{"}}`) }

// parse divides a text into pieces.
func parse(text string, at strict.Position) (pieces []piece, err error) {
	rest, offset := text, 0
	for {
		i := strings.Index(rest, open)
		if i < 0 {
			break
		}
		if i > 0 {
			pieces = append(pieces, piece{text: rest[:i]})
		}
		begin := after(at, text[:offset+i])
		length := expressionLength(rest[i:])
		if length < 0 {
			line, _, _ := strings.Cut(rest[i:], "\n")
			return nil, &Error{begin.Problem("the expression has no }}", `{{"{{"}} is {{ as text`), line}
		}
		source := rest[i : i+length]
		p, err := parseExpression(source, begin)
		if err != nil {
			return nil, err
		}
		p.at, p.begin, p.source = begin, offset+i, source
		pieces = append(pieces, p)
		rest, offset = rest[i+length:], offset+i+length
	}
	if rest != "" {
		pieces = append(pieces, piece{text: rest})
	}
	return pieces, nil
}

// after is the position of the byte after some text that begins at p.
func after(p strict.Position, text string) strict.Position {
	if n := strings.Count(text, "\n"); n > 0 {
		p.Line += n
		p.Column = 1
		text = text[strings.LastIndexByte(text, '\n')+1:]
	}
	p.Column += len(text)
	return p
}

// expressionLength is the length of the expression at the front of text, with its delimiters. A
// quoted argument may contain them. -1: it has no end.
func expressionLength(text string) int {
	for i := len(open); i < len(text); i++ {
		switch {
		case text[i] == '"' || text[i] == '`':
			quoted, err := strconv.QuotedPrefix(text[i:])
			if err != nil {
				return -1
			}
			i += len(quoted) - 1
		case strings.HasPrefix(text[i:], closed):
			return i + len(closed)
		}
	}
	return -1
}

// parseExpression reads an expression with its delimiters.
func parseExpression(source string, at strict.Position) (p piece, err error) {
	text := source[len(open) : len(source)-len(closed)]
	words, ok := split(text)
	fail := func(tip, format string, args ...any) (piece, error) {
		return p, &Error{at.Problem(fmt.Sprintf(format, args...), tip), source}
	}
	known := []string{"csv", "now", "random", "seq", "uuid"}
	if !ok || len(words) == 0 {
		return fail("known: "+strings.Join(known, ", "), "%.60q is not an expression", strings.TrimSpace(text))
	}
	if q, err := strconv.Unquote(words[0]); err == nil && len(words) == 1 {
		return piece{text: q}, nil
	}
	f, ok := functions[words[0]]
	if !ok {
		return fail(strict.DidYouMean(words[0], known), "unknown expression %.60q", words[0])
	}
	p.kind = f.kind
	if !f.read(&p, words[1:]) {
		return fail("write "+f.form, "%.60q has other arguments than %s", strings.TrimSpace(text), words[0])
	}
	return p, nil
}

// split divides an expression at spaces outside quotes.
func split(text string) (words []string, ok bool) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimLeft(text, " \t\r\n") {
		end := strings.IndexAny(text, " \t\r\n")
		if quoted, err := strconv.QuotedPrefix(text); err == nil {
			end = len(quoted)
		}
		if end < 0 {
			end = len(text)
		}
		words, text = append(words, text[:end]), text[end:]
		if text != "" && !slices.Contains([]byte(" \t\r\n"), text[0]) {
			return nil, false // text after the closing quote
		}
	}
	return words, true
}
