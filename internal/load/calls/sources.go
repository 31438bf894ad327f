package calls

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/load"
)

// Source is the content of a file of requests.
type Source struct {
	Calls []Call // different requests
	// Log reports an access log.
	Log bool
	// Hosts counts the requests of a log by the Host of their lines, empty for none.
	Hosts map[string]int
	// Omitted counts requests and lines by the reason why they are omitted.
	Omitted map[string]int
}

// Note lists what is omitted, the most frequent first. It is empty if nothing is.
func (s *Source) Note() string {
	return printable.Listed(printable.Texts(printable.MostFirst(s.Omitted), func(why string) string { return fmt.Sprintf("%s (%d)", why, s.Omitted[why]) }), maxReasons)
}

// HostNote lists the Hosts that requests of a log have. It is empty for other files.
func (s *Source) HostNote() string {
	var sent []string
	for _, host := range printable.MostFirst(s.Hosts) {
		if host != "" {
			sent = append(sent, fmt.Sprintf("%s (%d)", host, s.Hosts[host]))
		}
	}
	switch {
	case len(s.Hosts) == 0:
		return ""
	case len(sent) == 0:
		return "no line has a Host: requests have that of the URL"
	case s.Hosts[""] > 0:
		return fmt.Sprintf("Host of each line: %s. %d without one have that of the URL", printable.Listed(sent, maxReasons), s.Hosts[""])
	}
	return "Host of each line: " + printable.Listed(sent, maxReasons)
}

// maxReasons bounds a note.
const maxReasons = 8

// maxEntries bounds the requests of a log.
const maxEntries = 2_000_000

// Open reads requests in the format that the content has: vegeta's targets, JSON lines, or an access log. base is the URL
// whose scheme and host requests of a log get, empty for none.
func Open(r io.Reader, name, base string) (*Source, error) {
	b := bufio.NewReaderSize(r, maxHead)
	head, err := b.Peek(maxHead)
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if hasLogLine(head) {
		var to *url.URL
		if base != "" {
			if to, err = printable.ParseURL(base); err != nil {
				return nil, err
			}
		}
		return readLog(b, name, to)
	}
	if what, tip := regular.ForeignFormat("", head); what != "" {
		tip = cmp.Or(tip, "the formats are lines of method and URL, JSON lines and access logs")
		return nil, strict.Problem{File: name, Line: 1, Column: 1, Message: "this is " + what + ", and contains no requests that can be sent", Tip: tip}
	}
	all, err := read(b, name)
	if err != nil {
		return nil, err
	}
	return &Source{Calls: all}, nil
}

// maxHead is where a log's first request may be, in bytes: a program's start comes before it.
const maxHead = 256 << 10

// gather joins equal requests, whose number becomes their weight.
type gather struct {
	Source
	index    map[string]int
	requests int
}

// omit counts a request or line that is not sent.
func (g *gather) omit(why string) {
	if g.Omitted == nil {
		g.Omitted = map[string]int{}
	}
	g.Omitted[why]++
}

// add takes a request.
func (g *gather) add(c Call) error {
	var key strings.Builder
	for _, part := range append([]string{c.Method, c.URL, string(c.Body)}, c.Headers...) {
		fmt.Fprintf(&key, "%d:%s", len(part), part)
	}
	i, ok := g.index[key.String()]
	switch {
	case !ok && len(g.Calls) == maxCalls:
		return fmt.Errorf("more than %d different requests", maxCalls)
	case g.requests == maxEntries:
		return fmt.Errorf("more than %d requests", maxEntries)
	}
	if !ok {
		if g.index == nil {
			g.index = map[string]int{}
		}
		i = len(g.Calls)
		g.index[key.String()] = i
		g.Calls = append(g.Calls, c)
	}
	g.Calls[i].Weight++
	g.requests++
	return nil
}

// done is the source, whose weights are at most load.MaxWeight.
func (g *gather) done(name string) (*Source, error) {
	if len(g.Calls) == 0 {
		err := fmt.Errorf("read %s: it has no requests", name)
		if note := g.Note(); note != "" {
			err = fmt.Errorf("%w that can be sent: omitted are %s", err, note)
		}
		return nil, err
	}
	most := 1
	for _, c := range g.Calls {
		most = max(most, c.Weight)
	}
	for i := range g.Calls {
		if w := &g.Calls[i].Weight; most > load.MaxWeight {
			*w = max(1, *w*load.MaxWeight/most)
		}
	}
	return &g.Source, nil
}

// variable is a part of a path that identifies one object: a number, a UUID, or a long hexadecimal
// or mixed identifier.
var variable = regexp.MustCompile(`^([0-9]+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9a-fA-F]{12,}|[0-9A-Za-z_-]*[0-9][0-9A-Za-z_-]{15,})$`)

// pattern is the name of a request's figures: method and path with {id} for variable parts.
func pattern(method, path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if variable.MatchString(part) {
			parts[i] = "{id}"
		}
	}
	return method + " " + cmp.Or(strings.Join(parts, "/"), "/")
}

// onto is u at the scheme and host of base.
func onto(base, u *url.URL) *url.URL {
	moved := *u
	moved.Scheme, moved.Host, moved.User = base.Scheme, base.Host, nil
	return &moved
}
