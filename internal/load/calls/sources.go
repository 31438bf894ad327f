package calls

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/load/template"
)

// Source is the content of a file of requests.
type Source struct {
	Calls []Call // different requests
	// Order are requests by their numbers in Calls, and At their instants after the first.
	// Both are empty if the file has no instants.
	Order []int
	At    []time.Duration
	// Omitted counts requests of a log with methods that have bodies, which the log lacks.
	Omitted int
}

// maxEntries bounds the requests with instants, of a log.
const maxEntries = 2_000_000

// Open reads requests in the format that the content has: vegeta's targets, JSON lines, HAR,
// an access log of nginx or Envoy. base is the URL whose scheme and host requests of a log get,
// and those of HAR, empty for none. texts reads the files of expressions in targets and JSON lines,
// and is nil if braces are text.
func Open(r io.Reader, name, base string, texts *template.Reader) (*Source, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, err := b.Peek(32 << 10)
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var to *url.URL
	if base != "" {
		if to, err = url.Parse(base); err != nil {
			return nil, fmt.Errorf("URL: %w", err)
		}
	}
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, " \t\r\n\ufeff"), []byte("\n"))
	switch {
	case harStart.Match(head):
		return readHAR(b, name, to, texts)
	case logFormat(string(bytes.TrimSpace(line))) != nil:
		return readLog(b, name, to)
	}
	read, err := Read(b, name, texts)
	if err != nil {
		return nil, err
	}
	s := &Source{Calls: read}
	return s, s.schedule(name)
}

// harStart is the beginning of an HTTP archive.
var harStart = regexp.MustCompile(`^[\s\x{feff}]*\{\s*"log"\s*:`)

// schedule takes the instants of JSON lines, if they have any.
func (s *Source) schedule(name string) error {
	timed := slices.IndexFunc(s.Calls, func(c Call) bool { return c.At != nil })
	if timed < 0 {
		return nil
	}
	for i, c := range s.Calls {
		if c.At == nil {
			return fmt.Errorf("read %s: request %d has an instant, and request %d has none: give all or none an \"at\"", name, timed+1, i+1)
		}
		s.Order, s.At = append(s.Order, i), append(s.At, *c.At)
	}
	s.sort()
	return nil
}

// sort puts the requests in the order of their instants, the first at 0.
func (s *Source) sort() {
	if len(s.At) == 0 {
		return
	}
	places := make([]int, len(s.At))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(s.At[a], s.At[b]) })
	order, at := make([]int, len(places)), make([]time.Duration, len(places))
	for i, p := range places {
		order[i], at[i] = s.Order[p], s.At[p]-s.At[places[0]]
	}
	s.Order, s.At = order, at
}

// gather joins equal requests, whose number becomes their weight.
type gather struct {
	Source
	index map[string]int
	first time.Time
}

// add takes a request at an instant.
func (g *gather) add(c Call, at time.Time) error {
	var key strings.Builder
	for _, part := range append([]string{c.Method, c.URL, string(c.Body)}, c.Headers...) {
		fmt.Fprintf(&key, "%d:%s", len(part), part)
	}
	i, ok := g.index[key.String()]
	switch {
	case !ok && len(g.Calls) == maxCalls:
		return fmt.Errorf("more than %d different requests", maxCalls)
	case len(g.Order) == maxEntries:
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
	if g.first.IsZero() {
		g.first = at
	}
	g.Order, g.At = append(g.Order, i), append(g.At, at.Sub(g.first))
	return nil
}

// done is the source, whose weights are at most maxWeight.
func (g *gather) done(name string) (*Source, error) {
	if len(g.Calls) == 0 {
		return nil, fmt.Errorf("read %s: it has no requests", name)
	}
	most := 1
	for _, c := range g.Calls {
		most = max(most, c.Weight)
	}
	for i := range g.Calls {
		if w := &g.Calls[i].Weight; most > maxWeight {
			*w = max(1, *w*maxWeight/most)
		}
	}
	g.sort()
	return &g.Source, nil
}

// maxWeight is that of a profile.
const maxWeight = 1000

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
	if base == nil {
		return u
	}
	moved := *u
	moved.Scheme, moved.Host, moved.User = base.Scheme, base.Host, nil
	return &moved
}
