package calls

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/load"
)

// accessLog is the format of an access log. Groups: instant, method, path.
type accessLog struct {
	line   *regexp.Regexp
	layout string
	whole  bool // instants are whole seconds
}

// accessLogs are nginx's and Apache's common and combined formats, and Envoy's default. Fields
// after the request are not used.
var accessLogs = []accessLog{
	{regexp.MustCompile(`^\S+ \S+ .{0,200}? ?\[(\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\] "([A-Z]{1,20}) (\S+)(?: HTTP/[0-9.]+)?" \d{3} `), "02/Jan/2006:15:04:05 -0700", true},
	{regexp.MustCompile(`^\[(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z)\] "([A-Z]{1,20}) (\S+) HTTP/[0-9.]+" \d+ `), time.RFC3339Nano, false},
}

// logFormat is the format of a line, nil if it is none of an access log.
func logFormat(line string) *accessLog {
	for i := range accessLogs {
		if accessLogs[i].line.MatchString(line) {
			return &accessLogs[i]
		}
	}
	return nil
}

// replayed are the methods that a log describes in full and that change nothing (RFC 9110 section 9.2.1).

var replayed = []string{http.MethodGet, http.MethodHead, http.MethodOptions}

// maxOdd is the number of lines that may be something else, such as requests that the server could
// not parse, before the file is refused: a share of the lines so far.
const maxOdd = 0.1

// readLog reads an access log. Its requests go to base.
func readLog(r io.Reader, name string, base *url.URL) (*Source, error) {
	if base == nil {
		return nil, strict.Problem{File: name, Line: 1, Column: 1, Message: "an access log has no hosts", Tip: "give a URL: tare load http://127.0.0.1:8080/ --targets " + name}
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var g gather
	var seconds []time.Time // of each request, by the log
	n, odd := 0, 0
	whole := false
	for lines.Scan() {
		n++
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		fail := func(tip, format string, args ...any) error {
			return strict.Problem{File: name, Line: n, Column: 1, Message: fmt.Sprintf(format, args...), Tip: tip}
		}
		f := logFormat(text)
		if f == nil {
			if odd++; odd > 10 && float64(odd) > maxOdd*float64(n) {
				return nil, fail("the formats are nginx's and Apache's common and combined, and Envoy's default", "%d of %d lines are not of an access log, such as %.80q", odd, n, text)
			}
			continue
		}
		m := f.line.FindStringSubmatch(text)
		if !slices.Contains(replayed, m[2]) {
			g.Omitted++
			continue
		}
		at, err := time.Parse(f.layout, m[1])
		if err != nil {
			return nil, fail("", "%q is not a time", m[1])
		}
		u, err := url.ParseRequestURI(m[3])
		if err != nil || !strings.HasPrefix(u.Path, "/") {
			odd++ // a proxy's request with a host, or an attack
			continue
		}
		c := Call{URL: onto(base, u).String(), Call: load.Call{Name: pattern(m[2], u.EscapedPath()), Method: m[2]}}
		if _, err := load.ParseTarget(c.URL); err != nil {
			odd++
			continue
		}
		if err := g.add(c, at); err != nil {
			return nil, fail("take a shorter part of the log", "%v", err)
		}
		whole = whole || f.whole
		seconds = append(seconds, at)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: line %d: %w", name, n+1, err)
	}
	if whole {
		spread(g.At, seconds)
	}
	return g.done(name)
}

// spread distributes the requests of one second evenly over it, in the order of the log: its
// instants are whole seconds.
func spread(at []time.Duration, seconds []time.Time) {
	counts, seen := map[int64]int{}, map[int64]int{}
	for _, s := range seconds {
		counts[s.Unix()]++
	}
	for i, s := range seconds {
		second := s.Unix()
		at[i] += time.Second * time.Duration(seen[second]) / time.Duration(counts[second])
		seen[second]++
	}
}
