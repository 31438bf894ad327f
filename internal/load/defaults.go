package load

import (
	"cmp"
	"math"
	"net/http"
	"time"
)

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
