package loadgen

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Bounds of what a profile may ask; beyond them it is a mistake, not a wish.
const (
	maxRate        = 10_000_000 // 1/s
	maxConnections = 1_000_000
	maxRequestSize = 1 << 30 // bytes
	maxWorkers     = 1024
	maxStreams     = 100_000 // on a connection
	maxDuration    = 30 * 24 * time.Hour
)

// Defaults of what a profile leaves open.
const (
	DefaultConnections = 64
	DefaultTimeout     = 10 * time.Second
	DefaultStreams     = 16 // on an HTTP/2 connection
	defaultSpin        = 60 * time.Microsecond
)

// withDefaults fills in what p leaves open.
func (p Profile) withDefaults() Profile {
	if p.Method == "" {
		p.Method = http.MethodGet
		if p.RequestSize > 0 || p.BodyFile != "" {
			p.Method = http.MethodPost
		}
	}
	if p.Arrivals == "" {
		p.Arrivals = Poisson
	}
	if p.Resolve == "" {
		p.Resolve = ResolveOnce
	}
	if p.Overflow == "" {
		p.Overflow = overflowQueue
	}
	if p.Rate == 0 && len(p.Segments) > 0 {
		p.Rate = meanRate(p.Segments)
	}
	if p.Connections == 0 {
		p.Connections = DefaultConnections
	}
	if p.Timeout == 0 {
		p.Timeout = DefaultTimeout
	}
	if p.Workers == 0 {
		p.Workers = 1
	}
	// A worker without a connection to every target cannot take its share.
	if most := max(1, p.Connections/max(1, len(p.Targets))); p.Workers > most {
		p.Workers = most
	}
	if known, ok := protocols[p.Protocol]; ok {
		p.Protocol = known
	}
	if p.Protocol == protocolGRPC {
		p.Method = http.MethodPost
	}
	if p.Streams == 0 {
		p.Streams = DefaultStreams
	}
	return p
}

// What becomes of a request that finds no free connection.
const (
	overflowQueue = "queue"
	overflowDrop  = "drop"
)

// meanRate is the mean over the segments, for what needs one figure.
func meanRate(segments []Segment) float64 {
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

// validateArrivals names what is wrong with when requests are due and who takes them.
func (p *Profile) validateArrivals() (errs []error) {
	refuse := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(!slices.Contains([]string{Constant, Poisson, Uniform, Replay}, p.Arrivals),
		"arrivals %q are none of %s, %s, %s, %s", p.Arrivals, Constant, Poisson, Uniform, Replay)
	refuse(p.Arrivals == Replay && (p.ReplayFile == "" || p.Rate == 0), "arrivals to be replayed need a file and a rate above 0, which is only reported")
	refuse(len(p.Segments) > 0 && p.Sine != nil, "the rate cannot have both segments and a sine")
	for i, g := range p.Segments {
		refuse(g.For <= 0 || g.For > maxDuration, "segment %d lasts %v", i+1, g.For)
		for _, rate := range []float64{g.From, g.To} {
			refuse(!(rate >= 0 && rate <= maxRate), "segment %d: rate %v is not between 0 and %d requests/s", i+1, rate, maxRate)
		}
	}
	if s := p.Sine; s != nil {
		refuse(!(s.Amplitude >= 0 && s.Amplitude <= p.Rate), "the sine's amplitude %v is not between 0 and the rate %v", s.Amplitude, p.Rate)
		refuse(s.Period < time.Millisecond || s.Period > maxDuration, "the sine's period %v is not between 1ms and %v", s.Period, maxDuration)
	}
	refuse(p.Overflow != overflowQueue && p.Overflow != overflowDrop, "overflow %q is neither %s nor %s", p.Overflow, overflowQueue, overflowDrop)
	refuse(p.Parts < 0 || p.Part < 0 || p.Part >= max(1, p.Parts), "part %d of %d does not exist", p.Part, p.Parts)
	refuse(len(p.Weights) > 0 && len(p.Weights) != len(p.Targets), "%d weights for %d targets", len(p.Weights), len(p.Targets))
	for _, w := range p.Weights {
		refuse(w < 1 || w > 1000, "weight %d is not between 1 and 1000", w)
	}
	return errs
}

// Protocols the engine speaks; HTTP/1.1 also under other names that experiments give it.
const (
	protocolHTTP1 = "http1"
	protocolHTTP2 = "http2"
	protocolGRPC  = "grpc"
	protocolTCP   = "tcp"
	protocolAuto  = "auto"
)

// protocols by every name a profile may give them.
var protocols = map[string]string{
	"": protocolHTTP1, protocolHTTP1: protocolHTTP1, "http/1.1": protocolHTTP1, "http": protocolHTTP1,
	protocolHTTP2: protocolHTTP2, protocolGRPC: protocolGRPC, protocolTCP: protocolTCP, protocolAuto: protocolAuto,
}

// mayHTTP2 says whether the load may be one over HTTP/2.
func (p *Profile) mayHTTP2() bool {
	return p.Protocol == protocolHTTP2 || p.Protocol == protocolGRPC || p.Protocol == protocolAuto
}

// forbiddenH2 are header fields that speak of an HTTP/1.1 connection and have no
// place in HTTP/2 (RFC 9113 section 8.2.2).
var forbiddenH2 = []string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}

// validateHTTP2 names what is wrong with a load over HTTP/2.
func (p *Profile) validateHTTP2() (errs []error) {
	unsupported := func(when bool, what string) {
		if when {
			errs = append(errs, fmt.Errorf("%s with protocol %s: %w", what, p.Protocol, errors.ErrUnsupported))
		}
	}
	if p.Streams < 1 || p.Streams > maxStreams {
		errs = append(errs, fmt.Errorf("%d streams are not between 1 and %d", p.Streams, maxStreams))
	}
	if p.Protocol != protocolAuto {
		unsupported(p.NoKeepAlive, "a connection for every request")
		unsupported(p.portable(), "the portable engine")
	}
	for i, raw := range p.Targets {
		u, err := parseTarget(raw)
		if err != nil {
			continue // named already
		}
		if p.Protocol == protocolGRPC && strings.Count(u.EscapedPath(), "/") != 2 {
			errs = append(errs, fmt.Errorf("target %d: path %q is not of the form /package.Service/Method", i+1, u.Path))
		}
	}
	for _, h := range p.Headers {
		name, _, _ := strings.Cut(h, ":")
		unsupported(slices.Contains(forbiddenH2, strings.ToLower(name)), "header "+name)
	}
	return errs
}

// Validate names every mistake in p at once. Defaults need not be filled in.
// It wraps [errors.ErrUnsupported] where p asks for what the engine cannot do.
func (p Profile) Validate() error {
	p = p.withDefaults()
	var errs []error
	refuse := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(len(p.Targets) == 0, "no target")
	for _, t := range p.Targets {
		if _, err := parseTarget(t); err != nil {
			errs = append(errs, err)
		}
	}
	refuse(!httpguts.ValidHeaderFieldName(p.Method), "method %q is not a token", p.Method)
	refuse(math.IsNaN(p.Rate) || p.Rate < 0 || p.Rate > maxRate, "rate %v is not between 0 and %d requests/s", p.Rate, maxRate)
	errs = append(errs, p.validateArrivals()...)
	refuse(p.Connections < 1 || p.Connections > maxConnections, "%d connections are not between 1 and %d", p.Connections, maxConnections)
	refuse(p.Connections >= 1 && p.Connections < len(p.Targets), "%d connections are fewer than the %d targets", p.Connections, len(p.Targets))
	refuse(p.Workers < 1 || p.Workers > maxWorkers, "%d workers are not between 1 and %d", p.Workers, maxWorkers)
	for _, h := range p.Headers {
		name, value, ok := strings.Cut(h, ":")
		refuse(!ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value), "header %q is not of the form Name: value", h)
	}
	refuse(p.RequestSize > 0 && p.BodyFile != "", "a request cannot have both a body file and a body size")
	refuse(p.RequestSize < 0 || p.RequestSize > maxRequestSize, "request size %d is not between 0 and %d bytes", p.RequestSize, maxRequestSize)
	refuse(p.Requests < 0, "%d requests", p.Requests)
	refuse(p.Requests > 0 && p.Tail > 0, "a number of requests and a tail exclude each other")
	refuse(p.Measure <= 0, "the measure window is %v long", p.Measure)
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"timeout", p.Timeout}, {"warm-up", p.Warmup}, {"measure window", p.Measure}, {"tail", p.Tail}, {"drain", p.Drain}, {"calibration", p.Calibrate}} {
		refuse(d.d < 0 || d.d > maxDuration, "%s %v is not between 0 and %v", d.name, d.d, maxDuration)
	}
	for _, cpu := range p.CPUs {
		refuse(cpu < 0 || cpu >= 1024, "cpu %d is not between 0 and 1023", cpu)
	}
	refuse(p.Engine != "" && p.Engine != EnginePortable, "engine %q is neither empty nor %q", p.Engine, EnginePortable)
	refuse(p.Resolve != ResolveOnce && p.Resolve != ResolveConnection, "hosts are resolved %s or %s, not %q", ResolveOnce, ResolveConnection, p.Resolve)
	refuse(networks[p.IPVersion] == "", "IP version %q is neither 4 nor 6", p.IPVersion)
	refuse(p.Follow < 0 || p.Follow > 1000, "%d redirects are not between 0 and 1000", p.Follow)
	if p.Follow > 0 && p.Protocol != protocolHTTP1 && p.Protocol != protocolAuto {
		errs = append(errs, fmt.Errorf("following redirects with protocol %s: %w", p.Protocol, errors.ErrUnsupported))
	}
	refuse(p.GRPCStream && p.Protocol != protocolGRPC, "a streaming method with protocol %s: only gRPC has them", p.Protocol)
	refuse(p.TLS != nil && (p.TLS.CertFile == "") != (p.TLS.KeyFile == ""), "a client certificate needs both a certificate and a key file")
	if protocols[p.Protocol] == "" {
		errs = append(errs, fmt.Errorf("protocol %q: %w", p.Protocol, errors.ErrUnsupported))
	}
	errs = append(errs, p.validateEcho()...)
	errs = append(errs, p.validateChecks()...)
	if p.mayHTTP2() {
		errs = append(errs, p.validateHTTP2()...)
	}
	return errors.Join(errs...)
}
