package load

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
)

// Mistake is the error of one field of a profile.
type Mistake struct {
	Field string // by its name in JSON, with an index: expectStatus[0]
	error
	unsupported bool
}

// Unwrap returns the error, which may have a hint.
func (m *Mistake) Unwrap() error { return m.error }

// Is reports [errors.ErrUnsupported] for what the engine or a protocol lacks.
func (m *Mistake) Is(target error) bool { return m.unsupported && target == errors.ErrUnsupported }

type mistakes []*Mistake

func (m *mistakes) add(field string, err error) {
	if err != nil {
		*m = append(*m, &Mistake{Field: field, error: err})
	}
}

func (m *mistakes) refuse(field string, when bool, format string, args ...any) {
	if when {
		m.add(field, fmt.Errorf(format, args...))
	}
}

// lacks adds what the engine or a protocol does not support.
func (m *mistakes) lacks(field, remedy, format string, args ...any) {
	*m = append(*m, &Mistake{field, hint.New(remedy, format, args...), true})
}

// Validate returns every mistake in p. It wraps [errors.ErrUnsupported] where p needs what the engine does not support.
func (p Profile) Validate() error {
	return errors.Join(lists.Map(p.Mistakes(), func(m *Mistake) error { return m })...)
}

// Mistakes are all mistakes in p. Defaults need not be filled in.
func (p Profile) Mistakes() []*Mistake {
	workers := cmp.Or(p.Workers, 1) // before it is limited to the number of connections
	p = p.WithDefaults()
	p.Workers = workers
	var m mistakes
	m.refuse("targets", len(p.Targets) == 0, "no target")
	for _, t := range p.Targets {
		_, err := ParseTarget(t)
		m.add("targets", err)
	}
	if protocols[p.Protocol] == "" {
		m.lacks("protocol", "write http1, http2, grpc, websocket, tcp or auto", "unknown protocol %q", p.Protocol)
	}
	m.refuse("method", !IsToken(p.Method), "method %q is not a token", p.Method)
	p.validateBounds(&m)
	p.validateArrivals(&m)
	p.validateSlices(&m)
	origins, _ := p.Origins()
	m.refuse("connections", p.Connections >= 1 && p.Connections < len(origins), "fewer connections (%d) than hosts (%d): each host has connections of its own", p.Connections, len(origins))
	m.headers("headers", p.Headers)
	m.refuse("answer", (len(p.Answer)+len(p.Until) > 0 || p.Opening != nil) && p.Protocol != ProtocolTCP, "a whole answer with protocol %s: only tcp has it", p.Protocol)
	m.refuse("opening", p.Opening != nil && len(p.Opening.Expect)+len(p.Opening.Until) == 0, "an opening without an answer")
	m.refuse("body", p.Body != nil && p.RequestSize > 0, "a request cannot have a body and also a body size")
	for _, c := range p.ConnectTo {
		m.refuse("connectTo", len(c.To) == 0, "connections to %s:%d have no address", c.Host, c.Port)
	}
	m.refuse("requests", p.Requests > 0 && p.Tail > 0, "a number of requests and a tail exclude each other")
	m.refuse("measure", p.Measure == 0, "the measure window is 0s long")
	m.refuse("grpcStream", p.GRPCStream && p.Protocol != ProtocolGRPC, "a streaming method with protocol %s: only gRPC has them", p.Protocol)
	m.refuse("stream", p.Stream != "" && p.Stream != StreamChunks, "stream %q is not %s", p.Stream, StreamChunks)
	p.validateMessages(&m)
	m.refuse("tls", p.TLS != nil && (p.TLS.CertFile == "") != (p.TLS.KeyFile == ""), "a client certificate needs both a certificate and a key file")
	for _, f := range features {
		if f.used(&p) && slices.Contains(f.lacking, p.Protocol) {
			m.lacks(f.field, "remove it, or the protocol", "protocol %s does not support %s", p.Protocol, f.name)
		}
	}
	p.validateSchemes(&m)
	p.validateWebSocket(&m)
	p.validateCalls(&m)
	p.validateChecks(&m)
	if p.mayHTTP2() {
		p.validateHTTP2(&m)
	}
	return m
}

func (p *Profile) validateBounds(m *mistakes) {
	for _, n := range []struct {
		field, unit  string
		v, low, high float64
	}{
		{"rate", "requests/s", p.Rate, 0, MaxRate},
		{"connections", "connections", float64(p.Connections), 1, maxConnections},
		{"workers", "workers", float64(p.Workers), 1, MaxWorkers},
		{"streams", "streams", float64(p.Streams), 1, maxStreams},
		{"requestSize", "bytes of request body", float64(p.RequestSize), 0, MaxRequestSize},
		{"requests", "requests", float64(p.Requests), 0, maxRequests},
	} {
		m.refuse(n.field, !(n.v >= n.low && n.v <= n.high), "%s %s are not between %s and %s", decimal(n.v), n.unit, decimal(n.low), decimal(n.high))
	}
	for _, d := range []struct {
		field, name string
		d           time.Duration
	}{{"timeout", "timeout", p.Timeout}, {"warmup", "warm-up", p.Warmup}, {"measure", "measure window", p.Measure}, {"tail", "tail", p.Tail}, {"drain", "drain", p.Drain}} {
		m.refuse(d.field, d.d < 0 || d.d > MaxDuration, "%s %v is not between 0 and %v", d.name, d.d, MaxDuration)
	}
	for _, cpu := range p.CPUs {
		m.refuse("cpus", cpu < 0 || cpu >= 1024, "cpu %d is not between 0 and 1023", cpu)
	}
	for i, w := range p.Weights {
		m.refuse(fmt.Sprintf("weights[%d]", i), w < 1 || w > MaxWeight, "weight %d is not between 1 and %d", w, MaxWeight)
	}
}

// decimal is a number without an exponent.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func (p *Profile) validateArrivals(m *mistakes) {
	m.refuse("arrivals", !slices.Contains([]string{Constant, Poisson, Uniform}, p.Arrivals),
		"arrivals %q are none of %s, %s, %s", p.Arrivals, Constant, Poisson, Uniform)
	for i, g := range p.Segments {
		m.refuse("segments", g.For <= 0 || g.For > MaxDuration, "segment %d lasts %v", i+1, g.For)
		for _, rate := range []float64{g.From, g.To} {
			m.refuse("segments", !(rate >= 0 && rate <= MaxRate), "segment %d: rate %v is not between 0 and %d requests/s", i+1, rate, MaxRate)
		}
	}
	m.refuse("repeat", p.Repeat < 0 || p.Repeat > len(p.Segments), "%d of %d segments cannot repeat", p.Repeat, len(p.Segments))
	m.refuse("repeat", p.Repeat > 0 && p.Repeat <= len(p.Segments) && MeanRate(p.Segments[max(0, len(p.Segments)-p.Repeat):]) == 0, "the segments that repeat have no requests")
	m.refuse("parts", p.Parts < 0 || p.Part < 0 || p.Part >= max(1, p.Parts), "part %d of %d does not exist", p.Part, p.Parts)
	m.refuse("weights", len(p.Weights) > 0 && len(p.Weights) != len(p.Targets), "%d weights for %d targets", len(p.Weights), len(p.Targets))
	switch x := p.ConnectionRate; {
	case x == 0:
	case p.Rate == 0:
		m.add("connectionRate", hint.New("give a rate", "new connections per second need a rate of requests, not max"))
	case !(x >= 0 && x <= p.Rate):
		m.add("connectionRate", hint.New("write at most "+decimal(p.Rate)+", or raise the rate", "%s new connections/s with %s requests/s: each connection carries at least one request", decimal(x), decimal(p.Rate)))
	case p.NoKeepAlive:
		m.refuse("connectionRate", true, "with a connection for every request, its rate is the rate of new connections")
	}
}

func (p *Profile) validateHTTP2(m *mistakes) {
	for i, raw := range p.Targets {
		if u, err := ParseTarget(raw); err == nil { // else named already
			m.refuse("targets", p.Protocol == ProtocolGRPC && strings.Count(u.EscapedPath(), "/") != 2, "target %d: path %q is not of the form /package.Service/Method", i+1, u.Path)
		}
	}
	headers := p.Headers
	for _, c := range p.Calls {
		headers = slices.Concat(headers, c.Headers)
	}
	for _, h := range headers {
		if name, _, _ := strings.Cut(h, ":"); slices.Contains(forbiddenH2, strings.ToLower(name)) {
			m.lacks("headers", "leave it out", "protocol %s does not support header %s", p.Protocol, name)
		}
	}
}

// forbiddenH2 are header fields that speak of an HTTP/1.1 connection and have no
// place in HTTP/2 (RFC 9113 section 8.2.2).
var forbiddenH2 = []string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}

// maxMessages bounds the messages of a gRPC call, and their bytes.
const (
	maxMessages     = 1_000_000
	maxMessageBytes = 256 << 20
)

func (p *Profile) validateMessages(m *mistakes) {
	bytes := lists.Sum(p.Messages, func(message []byte) int { return len(message) })
	m.refuse("messages", len(p.Messages) > 0 && p.Protocol != ProtocolGRPC, "messages need protocol grpc, not %s", p.Protocol)
	m.refuse("messages", len(p.Messages) > 0 && (p.Body != nil || p.RequestSize > 0), "a gRPC call cannot have messages and also a body")
	m.refuse("roundTrips", p.RoundTrips && (len(p.Messages) == 0 || !p.GRPCStream), "round trips need messages and a response stream")
	m.refuse("messages", len(p.Messages) > maxMessages, "%d messages of a call are more than %d", len(p.Messages), maxMessages)
	m.refuse("messages", bytes > maxMessageBytes, "the messages of a call have %d bytes, more than %d", bytes, maxMessageBytes)
}

func (p *Profile) validateCalls(m *mistakes) {
	m.refuse("calls", len(p.Calls) > 0 && len(p.Calls) != len(p.Targets), "%d calls for %d targets", len(p.Calls), len(p.Targets))
	for i, c := range p.Calls {
		m.refuse(fmt.Sprintf("calls[%d].method", i), c.Method != "" && !IsToken(c.Method), "call %d: method %q is not a token", i+1, c.Method)
		m.headers(fmt.Sprintf("calls[%d].headers", i), c.Headers)
	}
}

// framing are the header fields that delimit a body. Servers differ in how they read
// a request whose fields do not fit its body (RFC 9112 section 6.3).
var framing = []string{"content-length", "transfer-encoding"}

func (m *mistakes) headers(field string, headers []string) {
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		m.refuse(field, !ok || !IsToken(name) || !IsFieldValue(value), "header %q is not of the form Name: value", h)
		if slices.Contains(framing, strings.ToLower(strings.TrimSpace(name))) {
			m.add(field, hint.New("leave it out: the body sets it", "header %s: the length of the body sets it", strings.TrimSpace(name)))
		}
	}
}

func (p *Profile) validateSchemes(m *mistakes) {
	for _, raw := range p.Targets {
		u, err := ParseTarget(raw)
		switch {
		case err != nil: // named already
		case isEcho(u) && p.Protocol != ProtocolTCP:
			m.refuse("targets", true, "target %s is of protocol tcp, not %s", raw, p.Protocol)
		case isSocket(u) && p.Protocol != ProtocolWebSocket:
			m.refuse("targets", true, "target %s is of protocol websocket, not %s", raw, p.Protocol)
		case isEcho(u) && u.Port() == "" && p.Socket == "":
			m.refuse("targets", true, "target %s names no port", raw)
		}
	}
}

func (p *Profile) validateChecks(m *mistakes) {
	for i, text := range p.ExpectStatus {
		field := fmt.Sprintf("expectStatus[%d]", i)
		var s StatusSet
		err := s.add(text)
		m.add(field, err)
		m.refuse(field, err == nil && !HasStatus(p.Protocol, text), "protocol %s has no status %s: its statuses are %s", p.Protocol, text, statusExamples(p.Protocol))
	}
	for _, list := range []struct {
		field string
		texts []string
		json  bool
	}{{"bodyHas", p.BodyHas, false}, {"bodyLacks", p.BodyLacks, false}, {"jsonHas", p.JSONHas, true}, {"jsonLacks", p.JSONLacks, true}} {
		for i, text := range list.texts {
			field := fmt.Sprintf("%s[%d]", list.field, i)
			m.refuse(field, text == "", "the text is empty")
			if _, err := ParseJSONPath(text); list.json && text != "" {
				m.add(field, err)
			}
		}
	}
	n := len(p.JSONHas) + len(p.JSONLacks)
	m.refuse("jsonHas", n > MaxJSONPaths, "%d JSON fields, max %d", n, MaxJSONPaths)
	m.refuse("jsonHas", n > 0 && p.Method == http.MethodHead, "an answer to HEAD has no body whose JSON fields could be checked")
}
func statusExamples(protocol string) string {
	if protocol == ProtocolGRPC {
		return StatusGRPCPrefix + "0 to " + StatusGRPCPrefix + strconv.Itoa(GrpcCodes-1)
	}
	return "such as 200 or 2xx"
}

// IsToken reports whether text is a token (RFC 9110, 5.6.2).
func IsToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// IsFieldValue reports whether text has no control characters but tabs (RFC 9110, 5.5).
func IsFieldValue(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// features are the properties of requests that some protocols lack.
var features = []struct {
	field, name string // of the profile, and in messages
	used        func(*Profile) bool
	lacking     []string // protocols
}{
	{"headers", "headers", func(p *Profile) bool { return len(p.Headers) > 0 }, []string{ProtocolTCP}},
	{"expectStatus", "checks of the status", func(p *Profile) bool { return len(p.ExpectStatus) > 0 }, []string{ProtocolTCP, ProtocolWebSocket}},
	{"bodyHas", "checks of the body", func(p *Profile) bool { return len(p.BodyHas) > 0 }, []string{ProtocolTCP}},
	{"bodyLacks", "checks of the body", func(p *Profile) bool { return len(p.BodyLacks) > 0 }, []string{ProtocolTCP}},
	{"jsonHas", "checks of JSON fields", func(p *Profile) bool { return len(p.JSONHas) > 0 }, []string{ProtocolTCP, ProtocolGRPC}},
	{"jsonLacks", "checks of JSON fields", func(p *Profile) bool { return len(p.JSONLacks) > 0 }, []string{ProtocolTCP, ProtocolGRPC}},
	{"calls", "several requests", func(p *Profile) bool { return len(p.Calls) > 0 || p.Protocol == ProtocolWebSocket && p.sharesHosts() }, []string{ProtocolTCP, ProtocolWebSocket}},
	{"connectionRate", "new connections per second", func(p *Profile) bool { return p.ConnectionRate != 0 }, []string{ProtocolWebSocket}},
	{"noKeepAlive", "a connection for every request", func(p *Profile) bool { return p.NoKeepAlive }, []string{ProtocolHTTP2, ProtocolGRPC}},
}

// Supports reports whether requests of a protocol can have a field of the profile.
func Supports(protocol, field string) bool {
	for _, f := range features {
		if f.field == field {
			return !slices.Contains(f.lacking, protocol)
		}
	}
	return true
}

// sharesHosts reports whether several targets have one host.
func (p *Profile) sharesHosts() bool {
	origins, _ := p.Origins()
	return len(p.Targets) > 1 && len(origins) < len(p.Targets)
}

// MaxJSONPaths is the max number of JSON fields of a profile.
const MaxJSONPaths = 64

// JsonPath names a field from the top of a JSON document: the keys of the objects
// that lead to it. It does not lead through arrays.
type JsonPath []string

// ParseJSONPath reads keys with dots between them; \. is a dot within a key, and \\
// a backslash.
func ParseJSONPath(text string) (JsonPath, error) {
	var path JsonPath
	var key strings.Builder
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
			key.WriteRune(r)
		case r == '\\':
			escaped = true
		case r == '.':
			path = append(path, key.String())
			key.Reset()
		default:
			key.WriteRune(r)
		}
	}
	path = append(path, key.String())
	if escaped || slices.Contains(path, "") {
		return nil, hint.New("write errors, or data.errors for a nested field", "JSON field %q is not of the form name or outer.inner", text)
	}
	return path, nil
}
