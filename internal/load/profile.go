// Package load is the contract of tare's own load engine: [Profile] is its input,
// [Report] and the lines before it are its output.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// Arrival processes of the open loop.
const (
	Constant = "constant" // the k-th request at k/rate: no drift, no randomness
	Poisson  = "poisson"  // exponential gaps: what independent users do, the default
	Uniform  = "uniform"  // the k-th request at a random moment of its own 1/rate
)

// StreamChunks is a value of [Profile.Stream].
const StreamChunks = "chunks"

// Segment is a stretch of the schedule over which the rate goes in a straight
// line from From to To (1/s): a step where they are equal, else a ramp.
type Segment struct {
	For  time.Duration `json:"for"`
	From float64       `json:"from"`
	To   float64       `json:"to"`
}

// Exchange is a request of protocol tcp with its answer: Expect is the whole answer, or its beginning if Until has its end.
type Exchange struct {
	Send   []byte `json:"send"`
	Expect []byte `json:"expect,omitempty"`
	Until  []byte `json:"until,omitempty"`
}

// Profile is one load, complete and serialisable: `tare-agent load` reads it as
// JSON, `tare load` builds it from flags, and every other generator's adapter
// translates it into that generator's command line.
type Profile struct {
	// Targets are URLs of equal weight, visited in turn. Usually there is one, or one per replica.
	Targets []string `json:"targets"`
	Method  string   `json:"method,omitempty"` // default GET, POST with a body
	// RequestSize is the length of the request's body in bytes.
	RequestSize int64 `json:"requestSize,omitempty"`
	// Rate is the requests per second of the open loop, and 0 is a closed loop at the maximum.
	Rate        float64 `json:"rate"`
	Arrivals    string  `json:"arrivals,omitempty"` // constant | poisson | uniform
	Seed        uint64  `json:"seed,omitempty"`
	Connections int     `json:"connections"`
	Workers     int     `json:"workers,omitempty"` // OS threads, default 1
	// Protocol is http1 (default), http2, grpc, websocket, tcp or auto.
	//
	// grpc: unary calls. A target's path is the method. The body is one message: that
	// of Body, or one whose field 1 has RequestSize bytes.
	//
	// tcp: the body, min one byte, is sent unchanged, and its answer is Answer or the same bytes.
	// A target is tcp://host:port, over TLS tls://host:port, or an http or https URL of which only
	// host and port count. ExpectSize has no effect.
	//
	// websocket: the body is one message, text if it is valid UTF-8. A target is ws://host:port/path,
	// or wss:// over TLS, or an http or https URL.
	//
	// auto: http2 for an https target whose server chooses it in a connection before
	// the load, http1 for any other.
	//
	// Over TLS, http2 and grpc are negotiated by ALPN, otherwise by prior knowledge.
	Protocol string `json:"protocol,omitempty"`
	// Streams is the maximum number of HTTP/2 and gRPC requests in flight on one
	// connection, default 16. The server may allow fewer.
	Streams int `json:"streams,omitempty"`
	// GRPCStream marks a server-streaming method: its response is any number of
	// messages, and the response time ends at the status after the last.
	// ExpectSize is then the size of every message.
	GRPCStream bool `json:"grpcStream,omitempty"`
	// Messages are the messages of each gRPC call, encoded, in place of a body. RoundTrips sends
	// each of them once the answer to the one before has come, over a stream in both
	// directions. Otherwise a call sends all at once.
	Messages   [][]byte `json:"messages,omitempty"`
	RoundTrips bool     `json:"roundTrips,omitempty"`
	// Stream is [StreamChunks] if each chunk of an answer is a message, or DATA frame of HTTP/2. Events of text/event-stream and
	// lines of JSON are messages without it.
	Stream string `json:"stream,omitempty"`
	// WebSocket is the answer to a message, nil for an echo.
	WebSocket *WebSocket `json:"webSocket,omitempty"`

	// Timeout bounds a request from its first send to the end of its answer. The wait for a free connection does not
	// count: a request in a queue ends with Drain at the latest.
	Timeout time.Duration `json:"timeout"` // ns

	// The schedule starts at Start (zero: at once). Requests intended before
	// Start+Warmup are warm-up, and those intended in the Measure that follows are
	// the measurement. Load goes on for Tail so that meters can be read under it.
	Start   time.Time     `json:"start,omitzero"`
	Warmup  time.Duration `json:"warmup"`
	Measure time.Duration `json:"measure"`
	Tail    time.Duration `json:"tail"`
	// Hold: the engine's process announces that it is ready, and Start comes then ([Begin]).
	Hold bool `json:"hold,omitempty"`
	// Await returns Start when the load is ready, and is nil if Start is known.
	Await func(context.Context) (time.Time, error) `json:"-"`
	// Requests, if not zero, ends the measure window when that number of requests has
	// been sent in it and answered. Measure is then its maximum.
	Requests int64         `json:"requests,omitempty"`
	Drain    time.Duration `json:"drain"` // how long to wait for requests in flight at the end

	// HDRPath receives the HdrHistogram interval log, empty for none.
	HDRPath string `json:"hdrPath,omitempty"`
	// AnswersPath receives every request with its connection, its instants and the value of [VersionHeader] in its answer,
	// as CSV, empty for none. HTTP/1.1 only.
	AnswersPath string `json:"answersPath,omitempty"`
	// Segments let the rate change with time, counted from the schedule's start. With them
	// Rate, where it is zero, is their mean.
	Segments []Segment `json:"segments,omitempty"`
	// Repeat is the number of segments at the end that repeat. With 0 the last rate stays.
	Repeat int `json:"repeat,omitempty"`
	// Part of Parts: this process sends requests Part, Part+Parts, … of the one
	// schedule that all parts share (by workers). Zero Parts: the whole of it.
	Part  int `json:"part,omitempty"`
	Parts int `json:"parts,omitempty"`
	// Slices, if not nil, restrict this load to its own slices of a time that it shares
	// with others. The rate applies to these slices, and the measure window has only them.
	Slices *Slices `json:"slices,omitempty"`

	// Calls are the requests to Targets, in their order, if they differ in more than their
	// URLs. HTTP and gRPC. Requests of one origin share its connections.
	Calls []Call `json:"calls,omitempty"`
	// Weights of the targets, in their order, empty if all are equal.
	Weights []int `json:"weights,omitempty"`
	// Headers are sent with every request, "Name: value".
	Headers []string `json:"headers,omitempty"`
	// Body is the request's body, in place of RequestSize filler bytes.
	Body []byte `json:"body,omitempty"`
	// Answer is the whole answer to each request of protocol tcp, or its beginning if Until has its end. Both empty: the bytes
	// of the request.
	Answer []byte `json:"answer,omitempty"`
	Until  []byte `json:"until,omitempty"`
	// Opening precedes the first request of each connection of protocol tcp.
	Opening *Exchange `json:"opening,omitempty"`
	// ConnectTo are the addresses of hosts, in place of a look-up, and the first that applies counts.
	// Requests and certificates keep the host of the URL. Several addresses of one name are used
	// in turn. An address that cannot be connected to is skipped for a second.
	ConnectTo []ConnectTo `json:"connectTo,omitempty"`
	// ConnectionRate is the new connections per second of an open loop, at most its rate: the client replaces each
	// connection after as many requests as make that rate. Zero keeps connections.
	ConnectionRate float64 `json:"connectionRate,omitempty"`
	// NoKeepAlive opens a connection for every request, and the service time begins with it.
	NoKeepAlive bool `json:"noKeepAlive,omitempty"`

	// CPUs pins the workers, empty for wherever the process may run.
	CPUs []int `json:"cpus,omitempty"`
	// Socket is the path of a Unix socket to connect to in place of the targets' hosts.
	Socket string `json:"socket,omitempty"`
	// TLS configures https targets, nil for the system's roots.
	TLS *TLS `json:"tls,omitempty"`
	// ExpectStatus are the statuses that count as success: codes ("404"), classes
	// ("3xx"), of gRPC "grpc-0" to "grpc-16". Answers of any other are counted as
	// "wrong status". Empty: 2xx and gRPC's 0 are success, others are counted by
	// their status alone. The checks below are of answers that count as success.
	ExpectStatus []string `json:"expectStatus,omitempty"`
	// ExpectSize is the size every body must have in bytes, negative for any.
	// For gRPC it is the size of the bytes in field 1 of the answer's message, as in
	// RequestSize.
	ExpectSize int64 `json:"expectSize"`
	// BodyHas and BodyLacks are texts that every body must and must not contain,
	// checked in its first MiB: some servers report failures in the body of a
	// 200. Checking keeps a copy of each body, which costs CPU.
	BodyHas   []string `json:"bodyHas,omitempty"`
	BodyLacks []string `json:"bodyLacks,omitempty"`
	// JSONHas and JSONLacks are fields that every body, which then must be JSON, must
	// and must not have: "errors", or "data.errors" for one within another (\. is a
	// dot in a name). A field that is null, an empty list or an empty object counts as
	// absent. The body is read as it comes and not kept. Not for gRPC.
	JSONHas   []string `json:"jsonHas,omitempty"`
	JSONLacks []string `json:"jsonLacks,omitempty"`

	message bool // the body is a whole message of gRPC
	given   bool // the request is of a file, with all its headers
}

// ConnectionShare is the share of requests after which their connection is replaced.
func (p *Profile) ConnectionShare() float64 {
	if p.ConnectionRate == 0 {
		return 0
	}
	return p.ConnectionRate / p.Rate
}

// IsMessage reports whether the body is a whole message of gRPC, not the content of its
// field 1.
func (p *Profile) IsMessage() bool { return p.message }

// Call is the request to one target. An empty field means the profile's value.
type Call struct {
	Name    string   `json:"name,omitempty"` // in [Report.Routes], by default method and path
	Method  string   `json:"method,omitempty"`
	Headers []string `json:"headers,omitempty"` // in addition to the profile's headers
	Body    []byte   `json:"body,omitempty"`    // of gRPC: the message
}

// ForTarget is the profile for target i: the fields of its call replace the profile's.
func (p *Profile) ForTarget(i int) Profile {
	q := *p
	if i >= len(p.Calls) {
		return q
	}
	c := p.Calls[i]
	q.Method = cmp.Or(c.Method, p.Method)
	q.Headers = slices.Concat(p.Headers, c.Headers)
	if c.Body != nil {
		q.Body, q.RequestSize, q.Messages = c.Body, 0, nil
		q.message = true
	}
	q.given = c.Method != "" || c.Headers != nil || c.Body != nil
	return q
}

// WithHeaders are default header fields, by name and value, and the headers of the profile. One of these replaces the default of
// its name.
func (p *Profile) WithHeaders(fields [][2]string) [][2]string {
	defaults := len(fields)
	for _, h := range p.Headers {
		name, value, _ := strings.Cut(h, ":")
		value = strings.TrimSpace(value)
		same := slices.IndexFunc(fields[:defaults], func(d [2]string) bool { return strings.EqualFold(d[0], name) })
		if same >= 0 {
			fields[same][1] = value
		} else {
			fields = append(fields, [2]string{name, value})
		}
	}
	return fields
}

// BodyType is the default media type of a body, empty for a request of a file: its headers are
// complete.
func (p *Profile) BodyType() string {
	if p.given {
		return ""
	}
	return "application/octet-stream"
}

// ConnectTo are the addresses of a host, for connections to a port.
type ConnectTo struct {
	Host string       `json:"host,omitempty"` // empty: any
	Port uint16       `json:"port,omitempty"` // 0: any
	To   []netip.Addr `json:"to"`
}

// TLS are the files of a TLS or mutual TLS connection, PEM.
type TLS struct {
	CAFile   string `json:"caFile,omitempty"`   // roots to trust in place of the system's
	CertFile string `json:"certFile,omitempty"` // the client's own certificate, with KeyFile
	KeyFile  string `json:"keyFile,omitempty"`
	Insecure bool   `json:"insecure,omitempty"` // accept any certificate
}

// Bounds of a profile's values. A larger value is an error.
const (
	MaxRate        = 10_000_000 // 1/s
	MaxWeight      = 1000       // of a target
	maxConnections = 1_000_000
	MaxRequestSize = 1 << 30 // bytes
	MaxWorkers     = 1024
	maxRequests    = 1 << 53 // exact in every JSON reader
	maxStreams     = 100_000 // on a connection
	MaxDuration    = 30 * 24 * time.Hour
)

// Defaults of unset fields of a profile.
const (
	DefaultConnections = 64
	DefaultTimeout     = 10 * time.Second
	DefaultStreams     = 16 // on an HTTP/2 connection
	DefaultSpin        = 60 * time.Microsecond
)

// WithDefaults returns p with the defaults of unset fields.
func (p Profile) WithDefaults() Profile {
	if p.Method == "" {
		p.Method = http.MethodGet
		if p.RequestSize > 0 || p.Body != nil {
			p.Method = http.MethodPost
		}
	}
	p.Arrivals = cmp.Or(p.Arrivals, Poisson)
	if p.Rate == 0 && len(p.Segments) > 0 {
		p.Rate = MeanRate(p.Segments)
	}
	p.Connections = cmp.Or(p.Connections, DefaultConnections)
	p.Timeout = cmp.Or(p.Timeout, DefaultTimeout)
	p.Workers = cmp.Or(p.Workers, 1)
	// A worker without a connection to every origin cannot take its share.
	if p.Workers > 1 {
		origins, _ := p.Origins()
		p.Workers = min(p.Workers, max(1, p.Connections/max(1, len(origins))))
	}
	if known, ok := protocols[p.Protocol]; ok {
		p.Protocol = known
	}
	if p.Protocol == ProtocolGRPC {
		p.Method = http.MethodPost
	}
	if p.Protocol == ProtocolWebSocket {
		w := WebSocket{}
		if p.WebSocket != nil {
			w = *p.WebSocket
		}
		w.Answer, w.Messages = cmp.Or(w.Answer, AnswerEcho), cmp.Or(w.Messages, 1)
		p.WebSocket = &w
	}
	if p.Streams == 0 {
		p.Streams = DefaultStreams
	}
	return p
}

// MeanRate is the mean over the segments, for what needs one figure.
func MeanRate(segments []Segment) float64 {
	var requests, seconds float64
	for _, g := range segments {
		requests += (g.From + g.To) / 2 * g.For.Seconds()
		seconds += g.For.Seconds()
	}
	if seconds == 0 {
		return 0
	}
	return requests / seconds
}

// Never is later than anything.
const Never = math.MaxInt64

// Protocol websocket: a request is a message, and its answer messages on the same connection.

// schemeWS and SchemeWSS are the schemes of a target of protocol websocket, plain and over TLS.
const (
	schemeWS  = "ws"
	SchemeWSS = "wss"
)

// WebSocket describes the answer to a request of protocol websocket.
type WebSocket struct {
	// Answer is one of AnswerEcho (default), AnswerMessage and AnswerPong.
	Answer string `json:"answer,omitempty"`
	// Messages is the number of messages that answer one, default 1.
	Messages int `json:"messages,omitempty"`
}

// Answers to a message.
const (
	AnswerEcho    = "echo"    // the same message
	AnswerMessage = "message" // any message, which must pass the checks of answers
	// AnswerPong is the answer to a ping that follows the message: for streams to a server that does
	// not answer. A server reads frames in order.
	AnswerPong = "pong"
)

// MaxSocketMessages is the max number of messages that answer one.
const MaxSocketMessages = 1_000_000

func (p *Profile) validateWebSocket(m *mistakes) {
	if p.Protocol != ProtocolWebSocket {
		m.refuse("webSocket", p.WebSocket != nil, "answers of a WebSocket with protocol %s", p.Protocol)
		return
	}
	w := p.WebSocket // with its defaults
	m.refuse("webSocket.answer", w.Answer != AnswerEcho && w.Answer != AnswerMessage && w.Answer != AnswerPong, "answer %q is none of %s, %s, %s", w.Answer, AnswerEcho, AnswerMessage, AnswerPong)
	m.refuse("webSocket.messages", w.Messages < 0 || w.Messages > MaxSocketMessages, "%d messages are not between 1 and %d", w.Messages, MaxSocketMessages)
	if w.Messages > 1 && w.Answer != AnswerMessage {
		m.add("webSocket.messages", hint.New("write answer: message", "answer %s is one message", w.Answer))
	}
	if checked := len(p.BodyHas)+len(p.BodyLacks)+len(p.JSONHas)+len(p.JSONLacks) > 0 || p.ExpectSize >= 0; checked && w.Answer != AnswerMessage {
		m.add("checks", hint.New("in an experiment, load.webSocket: {answer: message} has checks", "protocol websocket compares each answer with its message"))
	}
}

// Status codes of a close (RFC 6455 section 7.4.1).
const (
	CloseNormal   = 1000
	CloseNoStatus = 1005 // never sent: a close without a status
)

// closeFailures are the failures of requests whose connection the server closes, by status.
var closeFailures = map[uint16]Failure{
	1000: FailureClose1000, 1001: FailureClose1001, 1002: FailureClose1002, 1003: FailureClose1003, CloseNoStatus: FailureCloseNoStatus, 1007: FailureClose1007,
	1008: FailureClose1008, 1009: FailureClose1009, 1011: FailureClose1011, 1012: FailureClose1012, 1013: FailureClose1013,
}

// CloseFailure is the failure by the status of a close.
func CloseFailure(code uint16) Failure {
	if k, ok := closeFailures[code]; ok {
		return k
	}
	return FailureCloseOther
}

// Protocol tcp: a request is a number of bytes, and its answer is known: the same bytes, or others.

// schemeTCP and schemeTLS are the schemes of a target of protocol tcp, plain and over TLS.
const (
	SchemeTCP = "tcp"
	SchemeTLS = "tls"
)

// PortOf is the port u is to be connected to.
func PortOf(u *url.URL) uint16 {
	if s := u.Port(); s != "" {
		port, _ := strconv.ParseUint(s, 10, 16) // parseTarget has seen to it
		return uint16(port)
	}
	if u.Scheme == "https" || u.Scheme == SchemeWSS {
		return 443
	}
	return 80
}

// Paths lists the paths of the targets, each once, and which of them each target has: of
// calls their names. One path for all yields no paths.
func (p *Profile) Paths() (paths []string, of []int) {
	index := map[string]int{}
	for i, raw := range p.Targets {
		path := raw
		if u, err := url.Parse(raw); err == nil {
			path = u.EscapedPath()
		}
		if i < len(p.Calls) {
			path = cmp.Or(p.Calls[i].Name, cmp.Or(p.Calls[i].Method, p.Method, http.MethodGet)+" "+cmp.Or(path, "/"))
		}
		if _, ok := index[path]; !ok {
			index[path] = len(paths)
			paths = append(paths, path)
		}
		of = append(of, index[path])
	}
	if len(paths) <= 1 {
		paths = nil
	}
	return paths, of
}

// Origins lists the origins of the targets, each once, and which of them each target has.
// Requests of one origin share its connections.
func (p *Profile) Origins() (origins []string, of []int) {
	index := map[string]int{}
	for _, raw := range p.Targets {
		origin, _ := SplitOrigin(raw)
		origin = strings.ToLower(origin)
		if _, ok := index[origin]; !ok {
			index[origin] = len(origins)
			origins = append(origins, origin)
		}
		of = append(of, index[origin])
	}
	return origins, of
}

// SplitOrigin divides a URL into scheme, host and port, and all that follows.
func SplitOrigin(raw string) (origin, rest string) {
	begin := max(0, strings.Index(raw, "://")+len("://"))
	if i := strings.IndexAny(raw[min(begin, len(raw)):], "/?#"); i >= 0 {
		return raw[:begin+i], raw[begin+i:]
	}
	return raw, ""
}

// ParseTarget checks one URL of a profile without looking up its host.
func ParseTarget(raw string) (*url.URL, error) {
	u, err := printable.ParseURL(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("target: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" && !isEcho(u) && !isSocket(u):
		return nil, fmt.Errorf("target %q does not begin with http:// or https://, ws:// or wss://, nor with tcp:// or tls:// for an echo", printable.URL(raw))
	case u.Hostname() == "":
		return nil, fmt.Errorf("target %q names no host", printable.URL(raw))
	case u.User != nil:
		return nil, fmt.Errorf("target %s: credentials in a URL: %w", u.Redacted(), errors.ErrUnsupported)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("target %q: port %s is not between 1 and 65535", printable.URL(raw), port)
		}
	}
	return u, nil
}

func isEcho(u *url.URL) bool { return u.Scheme == SchemeTCP || u.Scheme == SchemeTLS }

func isSocket(u *url.URL) bool { return u.Scheme == schemeWS || u.Scheme == SchemeWSS }

// Protocols the engine speaks, HTTP/1.1 also under other names that experiments give it.
const (
	ProtocolHTTP1 = "http1"
	ProtocolHTTP2 = "http2"
	ProtocolGRPC  = "grpc"
	ProtocolTCP   = "tcp"
	ProtocolAuto  = "auto"

	ProtocolWebSocket = "websocket"
)

// protocols by every name a profile may give them.
var protocols = map[string]string{
	"": ProtocolHTTP1, ProtocolHTTP1: ProtocolHTTP1, "http/1.1": ProtocolHTTP1, "http": ProtocolHTTP1,
	ProtocolHTTP2: ProtocolHTTP2, ProtocolGRPC: ProtocolGRPC, ProtocolTCP: ProtocolTCP, ProtocolAuto: ProtocolAuto,
	ProtocolWebSocket: ProtocolWebSocket,
}

func (p *Profile) mayHTTP2() bool {
	return p.Protocol == ProtocolHTTP2 || p.Protocol == ProtocolGRPC || p.Protocol == ProtocolAuto
}

// Slices divides the time of several loads that take turns. All of them have the same table, and
// each has arrivals only in its own slices. The load then moves from one to the next without a
// message between them.
type Slices struct {
	Length time.Duration `json:"length"` // of a slice. Slice i begins at i·Length
	// Guard is the end of each slice, in which no request is intended. Answers arrive in
	// it, and counters are read near its end.
	Guard time.Duration `json:"guard"`
	// Owners of the slices, from the start of the schedule. Nobody sends after the last.
	Owners Owners `json:"owners"`
	Own    int    `json:"own"` // the owner that this load is
}

// Owners are numbers of loads, by slice. Their text has a digit for each, 0 to 9 and a to z.
type Owners []int

// MaxOwners is the number of digits.
const MaxOwners = 36

const ownerDigits = "0123456789abcdefghijklmnopqrstuvwxyz"

// MarshalText writes the digits.
func (o Owners) MarshalText() ([]byte, error) {
	text := make([]byte, len(o))
	for i, n := range o {
		if n < 0 || n >= MaxOwners {
			return nil, fmt.Errorf("owner %d of slice %d is not between 0 and %d", n, i, MaxOwners-1)
		}
		text[i] = ownerDigits[n]
	}
	return text, nil
}

// UnmarshalText reads the digits.
func (o *Owners) UnmarshalText(text []byte) error {
	*o = make(Owners, len(text))
	for i, c := range text {
		n := strings.IndexByte(ownerDigits, c)
		if n < 0 {
			return fmt.Errorf("owner %q of slice %d is not a digit or small letter", c, i)
		}
		(*o)[i] = n
	}
	return nil
}

// MaxSlices bounds a table: more than a day of slices of a tenth of a second.
const MaxSlices = 1 << 20

// readLead is the part of the guard between the reading of counters and the end of the slice. A
// reading that is late by no more precedes the first request of the next slice.
const readLead = 4

// Edge returns the instant between slices i-1 and i at which counters are read.
func (s *Slices) Edge(i int) time.Duration {
	return time.Duration(i)*s.Length - s.Guard/readLead
}

// Index returns the slice of an instant, in ns from the start of the schedule.
func (s *Slices) Index(at int64) int { return int(at / int64(s.Length)) }

// Loaded returns the time between two instants in which this load sends, without guards.
func (s *Slices) Loaded(from, to time.Duration) time.Duration {
	var sum time.Duration
	for i := int(from / s.Length); i < len(s.Owners) && time.Duration(i)*s.Length < to; i++ {
		if s.Owners[i] != s.Own {
			continue
		}
		begin := time.Duration(i) * s.Length
		sum += max(0, min(to, begin+s.Length-s.Guard)-max(from, begin))
	}
	return sum
}

// SliceCount counts the requests of one slice, by their intended start.
type SliceCount struct {
	Slice      int   `json:"slice"` // from the start of the schedule
	Intended   int64 `json:"intended"`
	Answered   int64 `json:"answered"` // with any status, at any time
	OK         int64 `json:"ok"`
	Overrun    int64 `json:"overrun"`    // ended after the reading at the end of the next slice
	ResponseNS int64 `json:"responseNS"` // sum over OK, from the intended start
	LastEnd    int64 `json:"lastEnd"`    // when the last of them ended, ns from the start of the schedule, 0 if none did
}

// Add adds the counts of another worker for the same slice.
func (n *SliceCount) Add(w *SliceCount) {
	n.Intended += w.Intended
	n.Answered += w.Answered
	n.OK += w.OK
	n.Overrun += w.Overrun
	n.ResponseNS += w.ResponseNS
	n.LastEnd = max(n.LastEnd, w.LastEnd)
}

// Loaded returns the part of the measure window in which the load sends: all of it, without slices.
func (p *Profile) Loaded() time.Duration {
	if p.Slices == nil {
		return p.Measure
	}
	return p.Slices.Loaded(p.Warmup, p.Warmup+p.Measure)
}

func (p *Profile) validateSlices(m *mistakes) {
	s := p.Slices
	if s == nil {
		return
	}
	m.refuse("slices", p.Rate == 0, "slices need a rate: a closed loop has no schedule to share")
	m.refuse("slices", p.Requests > 0, "a number of requests and slices exclude each other")
	if s.Length < time.Millisecond || s.Length > MaxDuration {
		m.refuse("slices", true, "slices of %v are not between 1ms and %v", s.Length, MaxDuration)
		return
	}
	m.refuse("slices", s.Guard < 0 || s.Guard >= s.Length, "a guard of %v does not fit a slice of %v", s.Guard, s.Length)
	m.refuse("slices", len(s.Owners) == 0 || len(s.Owners) > MaxSlices, "%d slices are not between 1 and %d", len(s.Owners), MaxSlices)
	m.refuse("slices", p.Warmup%s.Length != 0 || p.Measure%s.Length != 0, "warm-up %v and measure window %v are not whole slices of %v", p.Warmup, p.Measure, s.Length)
	m.refuse("slices", s.End() < p.Warmup+p.Measure, "%d slices of %v end before the measure window does", len(s.Owners), s.Length)
	m.refuse("slices", p.Loaded() == 0, "owner %d has no slice in the measure window", s.Own)
}

// End returns the end of the table.
func (s *Slices) End() time.Duration { return time.Duration(len(s.Owners)) * s.Length }
