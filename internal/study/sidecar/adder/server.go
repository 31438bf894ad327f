package adder

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

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/scrape"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/inside/service"
)

// Server is the server of the study. Each route calls the same function over another
// transport.
type Server struct {
	requests atomic.Int64
	size     int64
	routes   map[string]*served
	metrics  scrape.Registry
}

// served is a route with its transport and its times.
type served struct {
	add         transport
	total, calc *scrape.Histogram
}

// buckets are in seconds and begin at the duration of an in-process call.
var buckets = []float64{1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 10, 20, 100}

// NewServer returns a server. Its responses have responseSize bytes, or more if the sum
// needs them.
func NewServer(w Ways, responseSize int64) (*Server, error) {
	if responseSize < 0 || responseSize > service.MaxResponseSize {
		return nil, fmt.Errorf("response size %d is not from 0 to %d bytes", responseSize, int64(service.MaxResponseSize))
	}
	s := &Server{size: responseSize, routes: map[string]*served{}}
	times := s.metrics.Histograms("server_response_time", "Seconds to process a request: stage total is all of it, stage calc the way to the function and back.",
		buckets, "route", "stage")
	for _, r := range routes {
		s.routes[r.path] = &served{r.to(w), times.With(r.server, "total"), times.With(r.server, "calc")}
	}
	s.routes["/"] = s.routes[routes[0].path]
	return s, nil
}

// ServeHTTP responds with the sum. A JSON body contains the addends, as sent by
// the study's client. Any other body is the payload.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, ok := s.routes[r.URL.Path]
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
	out, err := to.add(r.Context(), in)
	to.calc.Observe(time.Since(before).Seconds())
	if err != nil {
		fail(w, http.StatusBadGateway, fmt.Errorf("reach the function: %w", err))
		return
	}
	s.answer(w, out)
	to.total.Observe(time.Since(start).Seconds())
}

// readAll reads a body of known length without growing its buffer.
func readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength <= 0 || r.ContentLength > maxBody {
		return io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	}
	b := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, b)
	return b, err
}

// answer writes the sum, padded with spaces to the configured size.
func (s *Server) answer(w http.ResponseWriter, out sum) {
	b, err := json.Marshal(out)
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	if more := s.size - int64(len(b)); more > 0 {
		b = append(b, bytes.Repeat([]byte(" "), int(more))...)
	}
	write(w, b)
}

// serveRest serves the paths that are not routes.
func (s *Server) serveRest(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case service.HealthPath:
		w.Header().Set("Content-Length", "0")
	case service.StatsPath:
		writeJSON(w, service.Stats{Requests: s.requests.Load()})
	default:
		paths := printable.Texts(routes, func(route route) string { return route.path })
		fail(w, http.StatusNotFound, fmt.Errorf("there is no route %.80q: routes are %s", r.URL.Path, strings.Join(paths, ", ")))
	}
}

// Admin returns the handler of a separate port: /healthz, /readyz, /stats, /stages,
// /metrics for Prometheus and, with the token, /probe.
func (s *Server) Admin(token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+service.ProbePath, service.ProbeHandler(token))
	for _, path := range []string{service.HealthPath, service.ReadyPath} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	}
	mux.HandleFunc("GET "+service.StatsPath, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, service.Stats{Requests: s.requests.Load()})
	})
	mux.HandleFunc("GET "+app.StagesPath, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.stages()) })
	mux.Handle("GET /metrics", &s.metrics)
	return mux
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	write(w, b)
}

// write responds with JSON.
func write(w http.ResponseWriter, b []byte) {
	h := w.Header()
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // fails if the client is gone
}

func fail(w http.ResponseWriter, status int, err error) { http.Error(w, err.Error(), status) }

// stages lists the times of all requests by route and stage.
func (s *Server) stages() []app.StageTime {
	all := []app.StageTime{}
	for _, r := range routes {
		to := s.routes[r.path]
		for stage, times := range map[string]*scrape.Histogram{"total": to.total, "calc": to.calc} {
			count, seconds := times.Totals()
			all = append(all, app.StageTime{Route: r.path, Stage: stage, Count: int64(count), Seconds: seconds})
		}
	}
	return all
}
