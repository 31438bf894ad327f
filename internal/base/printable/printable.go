// Package printable escapes control characters in untrusted text. Names, messages and
// definitions may contain terminal escapes, which move the cursor or set the title,
// and bidirectional controls, which show text in another order than it has
// (Trojan Source, CVE-2021-42574).
package printable

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text replaces the controls in s and invalid UTF-8 by the replacement
// character U+FFFD. It also replaces the first character of a workflow command.
func Text(s string) string {
	if !plain(s) {
		s = strings.Map(shown, s)
	}
	if !strings.Contains(s, "::") && !strings.Contains(s, "##") {
		return s
	}
	return command.ReplaceAllStringFunc(s, func(start string) string {
		i := strings.IndexAny(start, ":#")
		return start[:i] + string(utf8.RuneError) + start[i+1:]
	})
}

// command is the beginning of a command that CI obeys in a job's log: of GitHub Actions, at the beginning of a line or
// in its older form anywhere, and of Azure Pipelines.
var command = regexp.MustCompile(`(?m)^[ \t]*::[A-Za-z][\w-]*( [^\n]*)?::|##(vso)?\[`)

// Line is [Text] of one line: a line feed is a control in it.
func Line(s string) string {
	return strings.ReplaceAll(Text(s), "\n", " ")
}

// Writing calls write with a buffer, and copies what it wrote to w as [Text].
func Writing(w io.Writer, write func(io.Writer) error) error {
	return through(w, write, func(b []byte) []byte {
		if plain(b) {
			return b
		}
		return bytes.Map(shown, b)
	})
}

// shown is r, or the replacement character for a control and for invalid UTF-8.
func shown(r rune) rune {
	if hidden(r) {
		return utf8.RuneError
	}
	return r
}

// WritingJSON is Writing for JSON: a control becomes an escape sequence of JSON, so
// that programs read the value unchanged.
func WritingJSON(w io.Writer, write func(io.Writer) error) error {
	return through(w, write, escaped)
}

// Safe makes write, which writes a value in a format, one without controls.
func Safe[T any](format string, write func(io.Writer, T) error) func(io.Writer, T) error {
	clean := func(w io.Writer, write func(io.Writer) error) error {
		return through(w, write, func(b []byte) []byte { return []byte(Text(string(b))) })
	}
	if format == "json" {
		clean = WritingJSON
	}
	return func(w io.Writer, v T) error {
		return clean(w, func(w io.Writer) error { return write(w, v) })
	}
}

func through(w io.Writer, write func(io.Writer) error, clean func([]byte) []byte) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	_, err := w.Write(clean(b.Bytes()))
	return err
}

// escaped writes controls as \uXXXX. JSON has them within strings only.
func escaped(text []byte) []byte {
	if plain(text) {
		return text
	}
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if hidden(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
}

// plain reports whether s is printable ASCII, as nearly all text is.
func plain[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\n' && c != '\t' || c > '~' {
			return false
		}
	}
	return true
}

// hidden reports whether a terminal or browser acts on r instead of showing it.
// Line feed and tab lay out text, and are kept.
func hidden(r rune) bool {
	if ' ' <= r && r <= '~' { // nearly all runes: the tables are a tenth of a large report's time
		return false
	}
	return r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}
