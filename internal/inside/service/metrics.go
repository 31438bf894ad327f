package service

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/base/scrape"
)

type metrics struct {
	registry  scrape.Registry
	durations *scrape.Histograms
}

// durationBuckets are in seconds, from the duration of an echo to the longest
// wait.
var durationBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60}

func newMetrics(s *Service) *metrics {
	m := &metrics{}
	m.durations = m.registry.Histograms("request_duration_seconds", "Time from a request's first byte read to its answer written.", durationBuckets, "status")
	for _, c := range []struct {
		name, help string
		of         func(Stats) int64
	}{
		{"requests_total", "Requests received.", func(s Stats) int64 { return s.Requests }},
		{"requests_limited_total", "Requests refused by the rate limit.", func(s Stats) int64 { return s.Limited }},
		{"errors_injected_total", "Errors that were asked for.", func(s Stats) int64 { return s.Injected }},
		{"calls_total", "Calls made to other services, retries included.", func(s Stats) int64 { return s.Calls }},
		{"call_retries_total", "Calls made again after they failed.", func(s Stats) int64 { return s.Retries }},
		{"requests_failed_by_calls_total", "Requests that failed because a call did.", func(s Stats) int64 { return s.FailedCalls }},
	} {
		m.registry.Counter(c.name, c.help, func() float64 { return float64(c.of(s.Stats())) })
	}
	m.registry.Gauge("go_goroutines", "Number of goroutines.", func() float64 { return float64(runtime.NumGoroutine()) })
	addProcess(&m.registry)
	return m
}

// observe records one response, or does nothing if metrics are disabled.
func (m *metrics) observe(_ *snapshot, status int, took time.Duration) {
	if m == nil {
		return
	}
	m.durations.With(strconv.Itoa(status)).Observe(took.Seconds())
}

// MetricsHandler serves the metrics, or returns nil if they are disabled.
func (s *Service) MetricsHandler() http.Handler {
	if s.metrics == nil {
		return nil
	}
	return MetricsOnly(&s.metrics.registry)
}

// MetricsOnly serves a registry at /metrics.
func MetricsOnly(r *scrape.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", r)
	return mux
}
