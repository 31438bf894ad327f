package calls

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/template"
)

// Source is the content of a file of requests.
type Source struct {
	Calls []Call // different requests
	// Order are requests by their numbers in Calls, and At their instants after the first.
	// Both are empty if the file has no instants.
	Order []int
	At    []time.Duration
	// Recorded reports a recording: an HTTP archive or an access log.
	Recorded bool
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

// maxEntries bounds the requests with instants, of a log.
const maxEntries = 2_000_000

// Open reads requests in the format that the content has: vegeta's targets, JSON lines, HAR,
// an access log, each also compressed by gzip. base is the URL whose scheme and host requests of a log get,
// and requests of a HAR file, empty for none. texts reads the files of expressions in targets and JSON lines, by paths from
// the directory of name, and is nil if braces are text.
func Open(r io.Reader, name, base string, texts *template.Reader) (*Source, error) {
	if texts != nil {
		dir, inside := texts.Dir, texts.Inside
		texts.Dir, texts.Inside = filepath.Dir(name), true
		defer func() { texts.Dir, texts.Inside = dir, inside }()
	}
	b, head, err := peek(r, name)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(head, []byte("\x1f\x8b")) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if b, head, err = peek(&capped{r: z, left: maxUnpacked}, name); err != nil {
			return nil, err
		}
	}
	var to *url.URL
	if base != "" {
		if to, err = printable.ParseURL(base); err != nil {
			return nil, err
		}
	}
	switch {
	case harStart.Match(head):
		return readHAR(b, name, to, texts)
	case hasLogLine(head):
		return readLog(b, name, to)
	}
	if what, tip := regular.ForeignFormat("", head); what != "" {
		tip = cmp.Or(tip, "the formats are lines of method and URL, JSON lines, HAR and access logs")
		return nil, strict.Problem{File: name, Line: 1, Column: 1, Message: "this is " + what + ", and contains no requests that can be sent", Tip: tip}
	}
	read, err := read(b, name, texts)
	if err != nil {
		return nil, err
	}
	s := &Source{Calls: read}
	return s, s.schedule(name)
}

// maxHead is where a log's first request may be, in bytes: a program's start comes before it.
const maxHead = 256 << 10

// peek returns the beginning of a file.
func peek(r io.Reader, name string) (*bufio.Reader, []byte, error) {
	b := bufio.NewReaderSize(r, maxHead)
	head, err := b.Peek(maxHead)
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return nil, nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, head, nil
}

// harStart is the beginning of an HTTP archive.
var harStart = regexp.MustCompile(`^[\s\x{feff}]*\{\s*"log"\s*:\s*[^\s"]`)

// maxUnpacked bounds the content of a compressed file, in bytes.
const maxUnpacked = 4 << 30

// capped fails beyond a number of bytes.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, fmt.Errorf("its content has more than %d GiB", maxUnpacked>>30)
	}
	return n, err
}

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

// gather joins equal requests, whose number becomes their weight.
type gather struct {
	Source
	index   map[string]int
	first   time.Time
	untimed bool // a request has no instant
}

// omit counts a request or line that is not sent.
func (g *gather) omit(why string) {
	if g.Omitted == nil {
		g.Omitted = map[string]int{}
	}
	g.Omitted[why]++
}

// add takes a request at an instant, which is zero if unknown.
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
	g.untimed = g.untimed || at.IsZero()
	g.Order, g.At = append(g.Order, i), append(g.At, at.Sub(g.first))
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
	if g.untimed {
		g.Order, g.At = nil, nil
	}
	g.sort()
	return &g.Source, nil
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
