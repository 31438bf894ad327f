// Package printable escapes control characters in untrusted text. Names, messages and
// definitions may contain terminal escapes, which move the cursor or set the title,
// and bidirectional controls, which show text in another order than it has
// (Trojan Source, CVE-2021-42574).
package printable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"
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

// URL is the text of a URL without what may be a password: all before its last @. The text need not be a URL.
func URL(raw string) string {
	at := strings.LastIndexByte(raw, '@')
	if at < 0 {
		return raw
	}
	scheme, _, ok := strings.Cut(raw[:at], "://")
	if !ok {
		return "xxxxx" + raw[at:]
	}
	return scheme + "://xxxxx" + raw[at:]
}

// WithoutPasswords replaces what may be passwords of URLs in arguments of a command line wherever a text repeats it.
func WithoutPasswords(text string, arguments []string) string {
	for _, a := range arguments {
		if _, rest, ok := strings.Cut(a, "//"); ok {
			if at := strings.LastIndexByte(rest, '@'); at > 0 {
				quoted := strconv.Quote(rest[:at])
				text = strings.NewReplacer(rest[:at]+"@", "xxxxx@", quoted[1:len(quoted)-1]+"@", "xxxxx@").Replace(text)
			}
		}
	}
	return text
}

// ParseURL is [url.Parse] with errors that contain no password.
func ParseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err == nil {
		return u, nil
	}
	reason := "the part before @ is not of the form user:password"
	if wrong, ok := errors.AsType[*url.Error](err); ok && !strings.Contains(raw, "@") {
		reason = wrong.Err.Error()
	}
	return nil, fmt.Errorf("URL %q: %s", URL(raw), reason)
}

// quoted is a string as Go prints it.
const quoted = `"(?:[^"\\]|\\.)*"`

// translations are texts of errors of Go's libraries, and the same for people who do not know Go. The first ones come first.
var translations = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile("cannot unmarshal !!(\\S+)(?: `[^`]*`)? into \\S+"), "found $1, expected another type"},
	{regexp.MustCompile(`(?:json: )?cannot unmarshal (\S+) into Go struct field [^\s.]*\.(\S+) of type .*`), "found JSON of type $1 in field $2, expected another type"},
	{regexp.MustCompile(`json: cannot unmarshal (\S+?)(?: \S+)? into Go value of type .*`), "found JSON of type $1, expected another type"},
	{regexp.MustCompile(`invalid character ('(?:[^'\\]|\\.)+') (?:looking for beginning of [a-z]+(?: key string)?|after [a-z:]+(?:[ -][a-z:]+)*|in (?:string literal|string escape code|\\u hexadecimal character escape|numeric literal|exponent of numeric literal|literal [a-z]+(?: \(expecting '.'\))?))`), "not JSON at $1"},
	{regexp.MustCompile(`unexpected end of JSON input`), "the JSON ends too early"},
	{regexp.MustCompile(`strconv\.[A-Za-z]+: parsing (` + quoted + `): value out of range`), "$1 is too large"},
	{regexp.MustCompile(`strconv\.[A-Za-z]+: parsing (` + quoted + `): invalid syntax`), "$1 is not a number"},
	{regexp.MustCompile(`time: missing unit in duration (` + quoted + `)`), "$1 has no unit, such as 10s"},
	{regexp.MustCompile(`time: unknown unit (` + quoted + `) in duration (` + quoted + `)`), "$1 is not a unit of time in $2"},
	{regexp.MustCompile(`time: invalid duration (` + quoted + `)`), "$1 is not a duration, such as 10s"},
	{regexp.MustCompile(`\bparse (` + quoted + `): `), "URL $1: "},
	{regexp.MustCompile(`\brename \S+ (\S+): `), "write $1: "},
	{regexp.MustCompile(`(^|[\s(])(?:json|yaml): `), "$1"},
	{regexp.MustCompile(`context canceled`), "interrupted"},
	{regexp.MustCompile(`context deadline exceeded(?: \(Client\.Timeout[^)]*\))?`), "it took too long"},
	{regexp.MustCompile(`unexpected EOF`), "it ends too early"},
	{regexp.MustCompile(`\b((?:Get|Head|Post|Put|Patch|Delete) ` + quoted + `): EOF\b`), "$1: the connection was closed without an answer in HTTP"},
	{regexp.MustCompile(`(?:net/http: )?HTTP/1\.x transport connection broken: malformed HTTP (?:response|status code|version) (` + quoted + `)`), "the answer $1 is not HTTP"},
	{regexp.MustCompile(`: EOF\b`), ": it has ended"},
	{regexp.MustCompile(`^EOF$`), "it has ended"},
}

// Translate replaces texts of Go's libraries in the message of an error by words for people.
func Translate(message string) string {
	for _, t := range translations {
		message = t.from.ReplaceAllString(message, t.to)
	}
	return strings.TrimRight(message, " ")
}
