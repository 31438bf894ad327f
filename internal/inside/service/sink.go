package service

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"

	"github.com/tare-mesh/tare/internal/base/rpc"
)

// Sink receives spans by OTLP over gRPC (opentelemetry/proto/collector/trace/v1), counts them and
// discards them. GET /stats returns the counts, GET /healthz succeeds.
type Sink struct {
	exports, spans atomic.Int64
	mux            *http.ServeMux
	collector      *rpc.Server
}

// maxExport bounds one message of spans, bytes. Envoy sends a few at a time.
const maxExport = 4 << 20

// NewSink makes a sink.
func NewSink() *Sink {
	s := &Sink{mux: http.NewServeMux()}
	s.collector = rpc.NewServer(maxExport, rpc.Service{
		Name:     "opentelemetry.proto.collector.trace.v1.TraceService",
		Handlers: map[string]rpc.Handler{"Export": s.export},
	})
	s.mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	s.mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", typeJSON)
		_ = json.NewEncoder(w).Encode(map[string]int64{"exports": s.exports.Load(), "spans": s.spans.Load()})
	})
	s.mux.Handle("POST /", s.collector)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Numbers of fields: ExportTraceServiceRequest.resource_spans, ResourceSpans.scope_spans and ScopeSpans.spans.
var spanPath = []int{1, 2, 2}

func (s *Sink) export(_ context.Context, _ http.Header, request []byte) (rpc.Message, error) {
	n, err := countFields(request, spanPath)
	if err != nil {
		return nil, err
	}
	s.exports.Add(1)
	s.spans.Add(n)
	return rpc.Message{nil}, nil // an empty response: everything is accepted
}

// countFields is the number of fields at a path of messages.
func countFields(message []byte, path []int) (n int64, err error) {
	fields, err := rpc.Fields(message)
	if err != nil {
		return 0, err
	}
	for _, f := range fields {
		switch {
		case f.Number != path[0]:
		case len(path) == 1:
			n++
		default:
			inner, err := countFields(f.Bytes, path[1:])
			if err != nil {
				return 0, err
			}
			n += inner
		}
	}
	return n, nil
}
