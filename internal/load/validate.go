package load

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
)

// forbiddenH2 are header fields that speak of an HTTP/1.1 connection and have no
// place in HTTP/2 (RFC 9113 section 8.2.2).
var forbiddenH2 = []string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}

// framing are the header fields that delimit a body. Servers differ in how they read
// a request whose fields do not fit its body (RFC 9112 section 6.3).
var framing = []string{"content-length", "transfer-encoding"}

// mistakes are all that is wrong with a profile.
type mistakes []error

// add adds an error, unless it is nil.
func (m *mistakes) add(err error) {
	if err != nil {
		*m = append(*m, err)
	}
}

func (m *mistakes) refuse(when bool, format string, args ...any) {
	if when {
		m.add(fmt.Errorf(format, args...))
	}
}

// Validate names every mistake in p at once. Defaults need not be filled in.
// It wraps [errors.ErrUnsupported] where p asks for what the engine cannot do.
func (p Profile) Validate() error {
	workers := p.Workers // before it is limited to the number of connections
	p = p.WithDefaults()
	var m mistakes
	m.refuse(len(p.Targets) == 0, "no target")
	for _, t := range p.Targets {
		_, err := ParseTarget(t)
		m.add(err)
	}
	m.refuse(!IsToken(p.Method), "method %q is not a token", p.Method)
	m.refuse(math.IsNaN(p.Rate) || p.Rate < 0 || p.Rate > MaxRate, "rate %v is not between 0 and %d requests/s", p.Rate, MaxRate)
	p.validateArrivals(&m)
	p.validateConnectionRate(&m)
	p.validateSlices(&m)
	m.refuse(p.Connections < 1 || p.Connections > maxConnections, "%d connections are not between 1 and %d", p.Connections, maxConnections)
	origins, _ := p.Origins()
	m.refuse(p.Connections >= 1 && p.Connections < len(origins), "fewer connections (%d) than hosts (%d): each host has connections of its own", p.Connections, len(origins))
	m.refuse(p.Workers < 1 || workers > maxWorkers, "%d workers are not between 1 and %d", workers, maxWorkers)
	m.headers(p.Headers)
	m.refuse((len(p.Answer)+len(p.Until) > 0 || p.Opening != nil) && p.Protocol != ProtocolTCP, "a whole answer with protocol %s: only tcp has it", p.Protocol)
	m.refuse(p.Opening != nil && len(p.Opening.Expect)+len(p.Opening.Until) == 0, "an opening without an answer")
	m.refuse(p.Body != nil && p.RequestSize > 0, "a request cannot have a body and also a body size")
	for _, c := range p.ConnectTo {
		m.refuse(len(c.To) == 0, "connections to %s:%d have no address", c.Host, c.Port)
	}
	m.refuse(p.RequestSize < 0 || p.RequestSize > MaxRequestSize, "request size %d is not between 0 and %d bytes", p.RequestSize, MaxRequestSize)
	m.refuse(p.Requests < 0, "%d requests", p.Requests)
	m.refuse(p.Requests > 0 && p.Tail > 0, "a number of requests and a tail exclude each other")
	m.refuse(p.Measure <= 0, "the measure window is %v long", p.Measure)
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"timeout", p.Timeout}, {"warm-up", p.Warmup}, {"measure window", p.Measure}, {"tail", p.Tail}, {"drain", p.Drain}} {
		m.refuse(d.d < 0 || d.d > MaxDuration, "%s %v is not between 0 and %v", d.name, d.d, MaxDuration)
	}
	for _, cpu := range p.CPUs {
		m.refuse(cpu < 0 || cpu >= 1024, "cpu %d is not between 0 and 1023", cpu)
	}
	m.refuse(p.GRPCStream && p.Protocol != ProtocolGRPC, "a streaming method with protocol %s: only gRPC has them", p.Protocol)
	m.refuse(p.Stream != "" && p.Stream != StreamChunks, "stream %q is not %s", p.Stream, StreamChunks)
	p.validateMessages(&m)
	m.refuse(p.TLS != nil && (p.TLS.CertFile == "") != (p.TLS.KeyFile == ""), "a client certificate needs both a certificate and a key file")
	m.refuse(protocols[p.Protocol] == "", "protocol %q: %w", p.Protocol, errors.ErrUnsupported)
	p.validateFeatures(&m)
	p.validateSchemes(&m)
	p.validateWebSocket(&m)
	p.validateCalls(&m)
	p.validateChecks(&m)
	if p.mayHTTP2() {
		p.validateHTTP2(&m)
	}
	return errors.Join(m...)
}

// validateArrivals adds the mistakes in arrivals, rates and shares.
func (p *Profile) validateArrivals(m *mistakes) {
	m.refuse(!slices.Contains([]string{Constant, Poisson, Uniform}, p.Arrivals),
		"arrivals %q are none of %s, %s, %s", p.Arrivals, Constant, Poisson, Uniform)
	for i, g := range p.Segments {
		m.refuse(g.For <= 0 || g.For > MaxDuration, "segment %d lasts %v", i+1, g.For)
		for _, rate := range []float64{g.From, g.To} {
			m.refuse(!(rate >= 0 && rate <= MaxRate), "segment %d: rate %v is not between 0 and %d requests/s", i+1, rate, MaxRate)
		}
	}
	m.refuse(p.Repeat < 0 || p.Repeat > len(p.Segments), "%d of %d segments cannot repeat", p.Repeat, len(p.Segments))
	m.refuse(p.Repeat > 0 && p.Repeat <= len(p.Segments) && MeanRate(p.Segments[max(0, len(p.Segments)-p.Repeat):]) == 0, "the segments that repeat have no requests")
	m.refuse(p.Parts < 0 || p.Part < 0 || p.Part >= max(1, p.Parts), "part %d of %d does not exist", p.Part, p.Parts)
	m.refuse(len(p.Weights) > 0 && len(p.Weights) != len(p.Targets), "%d weights for %d targets", len(p.Weights), len(p.Targets))
	for _, w := range p.Weights {
		m.refuse(w < 1 || w > MaxWeight, "weight %d is not between 1 and %d", w, MaxWeight)
	}
}

// validateConnectionRate adds the mistakes in new connections per second.
func (p *Profile) validateConnectionRate(m *mistakes) {
	if p.ConnectionRate == 0 {
		return
	}
	m.refuse(p.Rate == 0, "new connections per second need a rate: a closed loop has none")
	m.refuse(p.Rate > 0 && !(p.ConnectionRate >= 0 && p.ConnectionRate <= p.Rate), "%v new connections/s are not between 0 and the rate %v: each carries a request", p.ConnectionRate, p.Rate)
	m.refuse(p.NoKeepAlive, "with a connection for every request, its rate is the rate of new connections")
}

// validateHTTP2 adds the mistakes in a load over HTTP/2.
func (p *Profile) validateHTTP2(m *mistakes) {
	p.validateStreams(m)
	for i, raw := range p.Targets {
		u, err := ParseTarget(raw)
		if err != nil {
			continue // named already
		}
		m.refuse(p.Protocol == ProtocolGRPC && strings.Count(u.EscapedPath(), "/") != 2, "target %d: path %q is not of the form /package.Service/Method", i+1, u.Path)
	}
	for _, name := range p.connectionHeaders() {
		m.refuse(true, "header %s with protocol %s: %w", name, p.Protocol, errors.ErrUnsupported)
	}
}

func (p *Profile) validateStreams(m *mistakes) {
	m.refuse(p.Streams < 1 || p.Streams > maxStreams, "%d streams are not between 1 and %d", p.Streams, maxStreams)
}

// connectionHeaders are the names of all headers that speak of an HTTP/1.1 connection.
func (p *Profile) connectionHeaders() (names []string) {
	headers := p.Headers
	for _, c := range p.Calls {
		headers = slices.Concat(headers, c.Headers)
	}
	for _, h := range headers {
		if name, _, _ := strings.Cut(h, ":"); slices.Contains(forbiddenH2, strings.ToLower(name)) {
			names = append(names, name)
		}
	}
	return names
}

// maxMessages bounds the messages of a gRPC call, and their bytes.
const (
	maxMessages     = 1_000_000
	maxMessageBytes = 256 << 20
)

// validateMessages adds the mistakes in the messages of gRPC calls.
func (p *Profile) validateMessages(m *mistakes) {
	bytes := 0
	for _, message := range p.Messages {
		bytes += len(message)
	}
	m.refuse(len(p.Messages) > 0 && p.Protocol != ProtocolGRPC, "messages need protocol grpc, not %s", p.Protocol)
	m.refuse(len(p.Messages) > 0 && (p.Body != nil || p.RequestSize > 0), "a gRPC call cannot have messages and also a body")
	m.refuse(p.RoundTrips && (len(p.Messages) == 0 || !p.GRPCStream), "round trips need messages and a response stream")
	m.refuse(len(p.Messages) > maxMessages, "%d messages of a call are more than %d", len(p.Messages), maxMessages)
	m.refuse(bytes > maxMessageBytes, "the messages of a call have %d bytes, more than %d", bytes, maxMessageBytes)
}

// validateCalls adds the mistakes in calls.
func (p *Profile) validateCalls(m *mistakes) {
	if len(p.Calls) == 0 {
		return
	}
	m.refuse(len(p.Calls) != len(p.Targets), "%d calls for %d targets", len(p.Calls), len(p.Targets))
	for i, c := range p.Calls {
		m.refuse(c.Method != "" && !IsToken(c.Method), "call %d: method %q is not a token", i+1, c.Method)
		m.headers(c.Headers)
	}
}

func (m *mistakes) headers(headers []string) {
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		m.refuse(!ok || !IsToken(name) || !IsFieldValue(value), "header %q is not of the form Name: value", h)
		if slices.Contains(framing, strings.ToLower(strings.TrimSpace(name))) {
			m.add(hint.New("leave it out: the body sets it",
				"header %s: the length of the body sets it", strings.TrimSpace(name)))
		}
	}
}

// validateSchemes adds the targets whose scheme belongs to another protocol.
func (p *Profile) validateSchemes(m *mistakes) {
	for _, raw := range p.Targets {
		u, err := ParseTarget(raw)
		switch {
		case err != nil: // named already
		case isEcho(u) && p.Protocol != ProtocolTCP:
			m.refuse(true, "target %s is of protocol tcp, not %s", raw, p.Protocol)
		case isSocket(u) && p.Protocol != ProtocolWebSocket:
			m.refuse(true, "target %s is of protocol websocket, not %s", raw, p.Protocol)
		case isEcho(u) && u.Port() == "" && p.Socket == "":
			m.refuse(true, "target %s names no port", raw)
		}
	}
}

// validateChecks adds the mistakes in checks of answers.
func (p *Profile) validateChecks(m *mistakes) {
	for _, text := range p.ExpectStatus {
		var s StatusSet
		if err := s.add(text); err != nil {
			m.add(err)
			continue
		}
		m.refuse(!HasStatus(p.Protocol, text), "expected status %s with protocol %s: its statuses are %s", text, p.Protocol, statusExamples(p.Protocol))
	}
	fields := slices.Concat(p.JSONHas, p.JSONLacks)
	for _, text := range fields {
		_, err := ParseJSONPath(text)
		m.add(err)
	}
	m.refuse(len(fields) > MaxJSONPaths, "%d JSON fields are more than %d", len(fields), MaxJSONPaths)
	m.refuse(len(fields) > 0 && p.Method == http.MethodHead, "an answer to HEAD has no body whose JSON fields could be checked")
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
