// Package calls reads files of requests: targets of vegeta, and JSON lines.
package calls

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/load"
)

// Bounds of a file.
const (
	maxCalls = 10_000
	maxLine  = 16 << 20 // bytes
	maxBody  = 8 << 20  // bytes, of all requests: a profile has at most 16 MiB
)

type Call struct {
	load.Call
	URL    string
	Weight int // 1 by default
}

type file struct {
	name  string
	lines *bufio.Scanner
	line  int
	text  string // of the line
	again bool   // the line is to be read again
	over  bool
	body  int // bytes of all bodies so far
}

// Open reads requests: targets in vegeta's format, and JSON objects on one line each. name is for errors. Files of bodies lie
// below the directory of name.
func Open(r io.Reader, name string) ([]Call, error) {
	b := bufio.NewReader(r)
	if head, _ := b.Peek(b.Size()); head != nil { // an error comes again when lines are read
		if what, tip := regular.ForeignFormat("", head); what != "" {
			tip = cmp.Or(tip, "the formats are lines of method and URL, and JSON lines")
			return nil, strict.Problem{File: name, Line: 1, Column: 1, Message: "this is " + what + ", and contains no requests that can be sent", Tip: tip}
		}
	}
	f := &file{name: name, lines: bufio.NewScanner(b)}
	f.lines.Buffer(nil, maxLine)
	var calls []Call
	for f.next() {
		if f.text == "" || f.text[0] == '#' {
			continue
		}
		read := f.vegeta
		if f.text[0] == '{' {
			read = f.json
		}
		c, err := read()
		if err != nil {
			return nil, err
		}
		if f.body += len(c.Body); f.body > maxBody {
			return nil, f.fail("", "the bodies have more than %d bytes", maxBody)
		}
		if len(calls) == maxCalls {
			return nil, f.fail("", "more than %d requests", maxCalls)
		}
		calls = append(calls, c)
	}
	if err := f.lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: line %d: %w", name, f.line+1, err)
	}
	if calls == nil {
		return nil, fmt.Errorf("read %s: it has no requests", name)
	}
	return calls, nil
}

// request is the first line of a target of vegeta.
var request = regexp.MustCompile(`^[A-Z]+\s+\S+$`)

// bareURL is a line of a list of URLs.
var bareURL = regexp.MustCompile(`^https?://\S+$`)

// vegeta reads a target: method and URL, headers, @file with the body, and a blank line.
func (f *file) vegeta() (Call, error) {
	if bareURL.MatchString(f.text) { // a list of URLs
		c := Call{URL: f.text, Weight: 1, Call: load.Call{Method: http.MethodGet}}
		return c, f.check(&c)
	}
	if !request.MatchString(f.text) {
		return Call{}, f.fail("a line begins with method and URL, is a URL, or is a JSON object", "%.80q is not of the form GET http://host/path", f.text)
	}
	method, url, _ := strings.Cut(f.text, " ")
	c := Call{URL: strings.TrimSpace(url), Weight: 1, Call: load.Call{Method: method}}
	if err := f.check(&c); err != nil {
		return c, err
	}
	for f.next() {
		switch {
		case f.text == "":
			return c, nil
		case f.text[0] == '#':
		case f.text[0] == '{', request.MatchString(f.text), bareURL.MatchString(f.text):
			f.again = true
			return c, nil
		case f.text[0] == '@':
			path := f.text[1:]
			body, err := f.readBody(path)
			if err != nil {
				return c, f.fail("the path is relative to the directory of the targets, and the file lies below it", "read body: %v", err)
			}
			c.Body = body
		default:
			name, value, ok := strings.Cut(f.text, ":")
			if !ok {
				return c, f.fail("headers are Name: value, and a body is @file", "%.80q is not a header", f.text)
			}
			c.Headers = append(c.Headers, strings.TrimSpace(name)+": "+strings.TrimSpace(value))
		}
	}
	return c, nil
}

func (f *file) next() bool {
	if f.again {
		f.again = false
		return true
	}
	if f.over || !f.lines.Scan() { // after an error Scan may go on
		f.over, f.text = true, ""
		return false
	}
	f.line++
	f.text = strings.TrimSpace(f.lines.Text())
	return true
}

// readBody reads a file relative to the directory of the requests. For requests from standard input that is the working directory.
func (f *file) readBody(path string) ([]byte, error) {
	return regular.ReadInside(filepath.Dir(f.name), path, maxBody)
}

// jsonCall is a line of JSON. vegeta has header and a body in base64.
type jsonCall struct {
	Name    string              `json:"name"`
	Method  string              `json:"method"`
	URL     string              `json:"url"`
	Headers map[string]string   `json:"headers"`
	Header  map[string][]string `json:"header"`
	Body    json.RawMessage     `json:"body"`
	Weight  *int                `json:"weight"`
}

var jsonFields = []string{"name", "method", "url", "headers", "header", "body", "weight"}

func (f *file) json() (Call, error) {
	var j jsonCall
	d := json.NewDecoder(strings.NewReader(f.text))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return Call{}, f.fail(strict.DidYouMean(strings.Trim(field, `"`), jsonFields), "unknown field %s", field)
		}
		at := strict.Problem{File: f.name, Line: f.line, Column: 1, Message: fmt.Sprintf("no JSON object of a request: %v", err)}
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at.Column = int(syntax.Offset)
		}
		return Call{}, at
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Call{}, f.fail("write one object a line", "text after the object")
	}
	c := Call{URL: j.URL, Weight: 1, Call: load.Call{Name: j.Name, Method: j.Method}}
	if j.Weight != nil {
		c.Weight = *j.Weight
	}
	for name, value := range j.Headers {
		c.Headers = append(c.Headers, name+": "+value)
	}
	for name, values := range j.Header {
		for _, value := range values {
			c.Headers = append(c.Headers, name+": "+value)
		}
	}
	slices.Sort(c.Headers)
	isJSON := len(j.Body) > 0 && j.Body[0] != '"'
	if isJSON && !slices.ContainsFunc(c.Headers, func(h string) bool { return strings.HasPrefix(strings.ToLower(h), "content-type:") }) {
		c.Headers = append(c.Headers, "Content-Type: application/json")
	}
	var err error
	if c.Body, err = bodyOf(j); err != nil {
		return c, f.fail("header is vegeta's, with a body in base64; headers goes with a body as it is", "body: %v", err)
	}
	return c, f.check(&c)
}

// bodyOf is text, or a JSON value as it is. With vegeta's header it is base64.
func bodyOf(j jsonCall) ([]byte, error) {
	switch {
	case len(j.Body) == 0 || bytes.Equal(j.Body, []byte("null")):
		return nil, nil
	case j.Body[0] != '"':
		return j.Body, nil
	case j.Header != nil:
		var body []byte
		err := json.Unmarshal(j.Body, &body)
		return body, err
	}
	var body string
	err := json.Unmarshal(j.Body, &body)
	return []byte(body), err
}

func (f *file) check(c *Call) error {
	if _, err := load.ParseTarget(c.URL); err != nil {
		return f.fail("", "%v", err)
	}
	if c.Method == "" && c.Body != nil {
		c.Method = http.MethodPost
	}
	return nil
}

func (f *file) fail(tip, format string, args ...any) error {
	return strict.Problem{File: f.name, Line: f.line, Column: 1, Message: fmt.Sprintf(format, args...), Tip: tip}
}
