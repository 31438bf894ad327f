package printable

import (
	"regexp"
	"strings"
)

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
