package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tare-mesh/tare/internal/base/probe"
)

// AdderServer is the server of the study. Each route calls the same function
// over another transport.
type AdderServer struct {
	requests atomic.Int64
	size     int64
	routes   map[string]*adderRoute
	metrics  *prometheus.Registry
}

type adderRoute struct {
	add         adder
	total, calc prometheus.Observer
}

// adderBuckets are in seconds and begin at the duration of an in-process call.
var adderBuckets = []float64{1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 10, 20, 100}

// NewAdderServer returns a server. Its responses have responseSize bytes, or
// more if the sum needs them.
func NewAdderServer(w Ways, responseSize int64) (*AdderServer, error) {
	if responseSize < 0 || responseSize > MaxResponseSize {
		return nil, fmt.Errorf("response size %d is not from 0 to %d bytes", responseSize, int64(MaxResponseSize))
	}
	s := &AdderServer{size: responseSize, routes: map[string]*adderRoute{}, metrics: prometheus.NewRegistry()}
	times := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "server_response_time", Help: "Seconds to process a request: stage total is all of it, stage calc the way to the function and back.", Buckets: adderBuckets,
	}, []string{"route", "stage"})
	s.metrics.MustRegister(times)
	for _, r := range Routes() {
		way, err := r.way(w)
		if err != nil {
			return nil, fmt.Errorf("route %s: %w", r.Path, err)
		}
		s.routes[r.Path] = &adderRoute{way, times.WithLabelValues(r.Server, "total"), times.WithLabelValues(r.Server, "calc")}
	}
	s.routes["/"] = s.routes["/adder"]
	return s, nil
}

// ServeHTTP responds with the sum. A JSON body contains the addends, as sent by
// the study's client. Any other body is the payload.
func (s *AdderServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, ok := s.routes[r.URL.Path]
	if !ok {
		s.serveRest(w, r)
		return
	}
	start := time.Now()
	s.requests.Add(1)
	in := addends{First: 1, Second: 2}
	body, err := readAll(w, r)
	if err == nil && r.Header.Get("Content-Type") == typeJSON {
		names := json.NewDecoder(bytes.NewReader(body))
		names.DisallowUnknownFields() // other names would silently leave 1 and 2
		err = names.Decode(&in)
	} else {
		in.Payload = body
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	before := time.Now()
	out, err := route.add(r.Context(), in)
	route.calc.Observe(time.Since(before).Seconds())
	if err != nil {
		fail(w, http.StatusBadGateway, fmt.Errorf("reach the function: %w", err))
		return
	}
	s.answer(w, out)
	route.total.Observe(time.Since(start).Seconds())
}

// readAll reads a body of known length without growing its buffer.
func readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength <= 0 || r.ContentLength > maxAdderBody {
		return io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdderBody))
	}
	b := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, b)
	return b, err
}

// answer writes the sum, padded with spaces to the configured size.
func (s *AdderServer) answer(w http.ResponseWriter, out sum) {
	b, err := json.Marshal(out)
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	if more := s.size - int64(len(b)); more > 0 {
		b = append(b, bytes.Repeat([]byte(" "), int(more))...)
	}
	h := w.Header()
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b)
}

// serveRest serves the paths that are not routes.
func (s *AdderServer) serveRest(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case HealthPath:
		w.Header().Set("Content-Length", "0")
	case StatsPath:
		answerJSON(w, http.StatusOK, Stats{Requests: s.requests.Load()})
	default:
		var paths []string
		for _, route := range Routes() {
			paths = append(paths, route.Path)
		}
		fail(w, http.StatusNotFound, fmt.Errorf("there is no route %.80q: routes are %s", r.URL.Path, strings.Join(paths, ", ")))
	}
}

// Admin returns the handler of a separate port: /healthz, /readyz, /stats,
// /metrics for Prometheus and, with the token, /probe.
func (s *AdderServer) Admin(token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+ProbePath, withToken(token, (&prober{take: probe.Local{}.Probe}).serve))
	for _, path := range []string{HealthPath, "/readyz"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	}
	mux.HandleFunc("GET "+StatsPath, func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, http.StatusOK, Stats{Requests: s.requests.Load()})
	})
	mux.Handle("GET /metrics", metricsHandler(s.metrics))
	return mux
}
