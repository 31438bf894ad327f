package service

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the Prometheus metrics of a service.
type metrics struct {
	registry  *prometheus.Registry
	durations *prometheus.HistogramVec
}

// durationBuckets are in seconds, from the duration of an echo to the longest
// wait.
var durationBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60}

func newMetrics(s *Service) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "request_duration_seconds", Help: "Time from a request's first byte read to its answer written.", Buckets: durationBuckets,
	}, []string{"status"})}
	counter := func(name, help string, of func(Stats) int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(of(s.Stats())) })
	}
	m.registry.MustRegister(m.durations, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		counter("requests_total", "Requests received.", func(s Stats) int64 { return s.Requests }),
		counter("requests_limited_total", "Requests refused by the rate limit.", func(s Stats) int64 { return s.Limited }),
		counter("errors_injected_total", "Errors that were asked for.", func(s Stats) int64 { return s.Injected }),
		counter("calls_total", "Calls made to other services, retries included.", func(s Stats) int64 { return s.Calls }),
		counter("call_retries_total", "Calls made again after they failed.", func(s Stats) int64 { return s.Retries }),
		counter("requests_failed_by_calls_total", "Requests that failed because a call did.", func(s Stats) int64 { return s.FailedCalls }),
	)
	return m
}

// observe records one response; it does nothing if metrics are disabled.
func (m *metrics) observe(_ *snapshot, status int, took time.Duration) {
	if m == nil {
		return
	}
	m.durations.WithLabelValues(strconv.Itoa(status)).Observe(took.Seconds())
}

// MetricsHandler serves the metrics; it returns nil if they are disabled.
func (s *Service) MetricsHandler() http.Handler {
	if s.metrics == nil {
		return nil
	}
	return metricsHandler(s.metrics.registry)
}

func metricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return mux
}
