package service

import (
	"bytes"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"syscall"
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

// addProcess adds metrics of this process, under the names of Prometheus's client libraries.
func addProcess(r *scrape.Registry) {
	r.Counter("process_cpu_seconds_total", "CPU time of the process, user and system, in seconds.", func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return 0 // impossible: the arguments are valid
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	})
	started := float64(time.Now().UnixMilli()) / 1e3
	r.Gauge("process_start_time_seconds", "Start of the process, in seconds since 1970.", func() float64 { return started })
	if _, err := residentPages(); err == nil {
		r.Gauge("process_resident_memory_bytes", "Resident memory, in bytes.", func() float64 {
			pages, _ := residentPages()
			return float64(pages) * float64(os.Getpagesize())
		})
	}
}

// residentPages reads the second field of /proc/self/statm (proc_pid_statm(5)).
func residentPages() (int64, error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(string(fields[1]), 10, 64)
}
