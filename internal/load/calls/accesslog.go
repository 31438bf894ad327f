package calls

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/load"
)

// logged is one line of an access log.
type logged struct {
	method string // empty if the line has no valid request
	uri    string
	host   string // the header Host, empty if the line lacks it
}

// accessLog is the format of an access log. Group: what the log calls the request.
type accessLog struct {
	line *regexp.Regexp
	// request groups method and path.
	request *regexp.Regexp
	escaped bool           // bytes are escaped by backslashes
	host    *regexp.Regexp // group: Host in the line
}

// accessLogs are nginx's and Apache's common and combined formats, also with the virtual host first, and Envoy's default. Of the
// fields after the request only Envoy's authority is used.
var accessLogs = []accessLog{
	{regexp.MustCompile(`^\S+ \S+ .{0,200}? ?\[\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4}\] "((?:[^"\\]|\\.)*)" (?:\d{3}|-) `),
		regexp.MustCompile(`^([A-Z]{1,20}) (\S+)(?: HTTP/[0-9.]+)?$`), true, regexp.MustCompile(`^([A-Za-z][\w.-]*:\d+) \S+ \S+ .{1,100} ?\[`)},
	{regexp.MustCompile(`^\[\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z\] "(.*?) (?:HTTP/[0-9.]+|-)" \d+ `),
		regexp.MustCompile(`^([A-Z]{1,20}) (\S+)$`), false, regexp.MustCompile(`" \d+ .*?"[^"]*" "[^"]*" "[^"]*" "([^"]+)" "[^"]*"`)},
}

// hostName is a Host that can be sent.
var hostName = regexp.MustCompile(`^[\w.-]+(?::\d{1,5})?$|^\[[0-9a-fA-F:]+\](?::\d{1,5})?$`)

// logPrefix is what log drivers and kubectl, with --prefix or --timestamps, put before a line.
var logPrefix = regexp.MustCompile(`^(?:\[pod/\S+\] )?(?:[\w.-]+ +\| )?(?:\d{4}-\d{2}-\d{2}T[\d:.]+(?:Z|[+-]\d{2}:\d{2}) (?:std(?:out|err) [FP] )?)?`)

// backslash is an escaped byte: nginx writes \xHH, Apache also \" and \\.
var backslash = regexp.MustCompile(`\\(?:x([0-9A-Fa-f]{2})|(.))`)

// hasLogLine reports whether one of the first lines is of an access log. Those before it may be of
// a program's start.
func hasLogLine(head []byte) bool {
	for line := range bytes.Lines(bytes.TrimLeft(head, "\ufeff")) {
		if _, ok := parseLogLine(strings.TrimSpace(string(line))); ok {
			return true
		}
	}
	return false
}

// described are the methods that a log describes in full and that change nothing (RFC 9110 section 9.2.1).
var described = []string{http.MethodGet, http.MethodHead, http.MethodOptions}

// maxOdd is the share of lines after the first request that may be something else, before the file
// is refused.
const maxOdd = 0.5

// Reasons of omitted lines.
const (
	omitMethod  = "requests with methods other than GET, HEAD and OPTIONS, whose bodies a log lacks"
	omitRequest = "lines without a valid request"
	omitLine    = "lines of something else"
)

// readLog reads an access log. Its requests go to base.
func readLog(r io.Reader, name string, base *url.URL) (*Source, error) {
	if base == nil {
		return nil, strict.Problem{File: name, Line: 1, Column: 1, Message: "an access log has no hosts", Tip: "give a URL: tare load http://127.0.0.1:8080/ --targets " + name}
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	g := gather{Source: Source{Log: true, Hosts: map[string]int{}}}
	n, odd, read := 0, 0, 0
	var first strict.Problem // line of something else, after the first request
	for lines.Scan() {
		n++
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		at := strict.Problem{File: name, Line: n, Column: 1}
		l, ok := parseLogLine(text)
		if !ok {
			g.omit(omitLine)
			if read > 0 {
				if odd++; odd == 1 {
					first = at
					first.Message = fmt.Sprintf("%.80q", text)
				}
			}
			continue
		}
		read++
		u, err := url.ParseRequestURI(l.uri)
		if err == nil && u.Host != "" { // of a forward proxy
			l.host = u.Host
		}
		switch {
		case l.method != "" && !slices.Contains(described, l.method):
			g.omit(omitMethod)
			continue
		case l.method == "" || err != nil || !strings.HasPrefix(u.Path, "/"): // an attack, a time-out or no HTTP
			g.omit(omitRequest)
			continue
		}
		u.RawQuery = escapeQuery(u.RawQuery)
		c := Call{URL: onto(base, u).String(), Call: load.Call{Name: pattern(l.method, u.EscapedPath()), Method: l.method}}
		if hostName.MatchString(l.host) {
			c.Headers = []string{"Host: " + l.host}
		} else {
			l.host = ""
		}
		if _, err := load.ParseTarget(c.URL); err != nil {
			g.omit(omitRequest)
			continue
		}
		if err := g.add(c); err != nil {
			at.Message, at.Tip = err.Error(), "take a shorter part of the log"
			return nil, at
		}
		g.Hosts[l.host]++
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: line %d: %w", name, n+1, err)
	}
	if odd > 10 && float64(odd) > maxOdd*float64(odd+read) {
		first.Message = fmt.Sprintf("%d of %d lines are not of an access log, such as %s", odd, odd+read, first.Message)
		first.Tip = "the formats are nginx's and Apache's common and combined, Envoy's default, and JSON with method, path and time"
		return nil, first
	}
	if len(g.Hosts) > 1 { // otherwise figures of equal paths would be one
		for i := range g.Calls {
			if c := &g.Calls[i]; len(c.Headers) > 0 {
				c.Name = strings.TrimPrefix(c.Headers[0], "Host: ") + " " + c.Name
			}
		}
	}
	return g.done(name)
}

// parseLogLine reads a line. It is not ok if the line is not of an access log.
func parseLogLine(text string) (l logged, ok bool) {
	if strings.HasPrefix(text, "{") {
		if text, l, ok = parseJSONLine(text); ok || text == "" {
			return l, ok
		}
	}
	if l, ok = parseTextLine(text); !ok {
		if rest := text[len(logPrefix.FindString(text)):]; rest != text {
			if strings.HasPrefix(rest, "{") {
				_, l, ok = parseJSONLine(rest)
				return l, ok
			}
			l, ok = parseTextLine(rest)
		}
	}
	return l, ok
}

func parseTextLine(text string) (l logged, ok bool) {
	for _, f := range accessLogs {
		m := f.line.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		if host := f.host.FindStringSubmatch(text); host != nil {
			l.host = host[1]
		}
		if request := f.request.FindStringSubmatch(m[1]); request != nil {
			l.method, l.uri = request[1], request[2]
			if f.escaped {
				l.uri = backslash.ReplaceAllStringFunc(l.uri, percent)
			}
		}
		return l, true
	}
	return l, false
}

// controls are the letters of escaped control characters.
var controls = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', 'b': '\b', 'f': '\f'}

// percent is an escaped byte in the notation of URLs.
func percent(escaped string) string {
	if len(escaped) == 4 {
		return "%" + strings.ToUpper(escaped[2:])
	}
	c := escaped[1]
	if control, ok := controls[c]; ok {
		c = control
	}
	return fmt.Sprintf("%%%02X", c)
}

// escapeQuery escapes the bytes that a request line cannot have.
func escapeQuery(query string) string {
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c >= 0x7f || c == '"' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// The names of fields in JSON access logs, of objects in objects with a dot. The first that a line
// has counts. Istio and Envoy: start_time, method, path. nginx: what a log_format names, here as in
// its own variables. Traefik: StartUTC, RequestMethod, RequestPath. Caddy: ts and request.
var (
	timeFields    = []string{"start_time", "StartUTC", "ts", "time_iso8601", "msec", "time_local", "@timestamp", "timestamp", "time"}
	methodFields  = []string{"method", "request_method", "RequestMethod", "request.method"}
	pathFields    = []string{"path", "request_uri", "RequestPath", "request.uri", "uri"}
	queryFields   = []string{"args", "query_string", "query"} // if the path has none
	requestFields = []string{"request"}                       // "GET /path HTTP/1.1", before all others
	hostFields    = []string{"authority", ":authority", "http_host", "RequestHost", "request.host", "vhost", "host"}
)

// escapedByte is nginx's notation of a byte, which is invalid in JSON.
var escapedByte = regexp.MustCompile(`\\x([0-9A-Fa-f]{2})`)

// parseJSONLine reads a JSON object of an access log. Of Docker's json-file driver it returns the
// line within, otherwise the line itself, or nothing if it is an object of something else.
func parseJSONLine(text string) (line string, l logged, ok bool) {
	var object map[string]any
	if json.Unmarshal([]byte(text), &object) != nil &&
		json.Unmarshal([]byte(escapedByte.ReplaceAllString(text, "%$1")), &object) != nil {
		return "", l, false
	}
	if within, is := object["log"].(string); is {
		if within = strings.TrimSpace(within); strings.HasPrefix(within, "{") {
			if strings.Contains(within, `"log"`) { // one level is enough
				return "", l, false
			}
			return parseJSONLine(within)
		}
		return within, l, false
	}
	timed := slices.ContainsFunc(timeFields, func(name string) bool { return object[name] != nil })
	if _, url := object["url"]; url || !timed { // a line of requests
		return "", l, false
	}
	l.method, l.uri, l.host = field(object, methodFields), field(object, pathFields), field(object, hostFields)
	if request := accessLogs[0].request.FindStringSubmatch(field(object, requestFields)); request != nil {
		l.method, l.uri = request[1], request[2] // nginx's $uri is decoded, rewritten and without arguments
	}
	if l.method == "" && l.uri == "" && object["response_code"] == nil && object["status"] == nil {
		return "", l, false
	}
	if query := field(object, queryFields); query != "" && query != "-" && l.uri != "" && !strings.Contains(l.uri, "?") {
		l.uri += "?" + strings.TrimPrefix(query, "?")
	}
	if strings.Trim(l.method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || l.uri == "" {
		l.method = "" // "-" of a request that was not valid
	}
	return text, l, true
}

// field is the first of the fields that is a text.
func field(object map[string]any, names []string) string {
	for _, name := range names {
		if text, ok := lookup(object, name).(string); ok && text != "" {
			return text
		}
	}
	return ""
}

func lookup(object map[string]any, name string) any {
	outer, inner, nested := strings.Cut(name, ".")
	if !nested {
		return object[name]
	}
	within, _ := object[outer].(map[string]any)
	return within[inner]
}
