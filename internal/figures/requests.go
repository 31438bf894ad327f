package figures

import (
	"strings"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Requests that a quantile needs: 10/(1-q), so that some lie above it.
const (
	needP50 = 20
	needP90 = 100
	needP99 = 1000
)

// requestFigures are the response times and errors by path or name of the request.
func requestFigures(f *figures, r *result.Record) {
	if r.Error != "" || r.Load == nil {
		return
	}
	for name, t := range r.Load.Routes {
		for _, q := range []struct {
			base string
			ms   float64
			need int64
		}{{metric.RequestP50, t.P50MS, needP50}, {metric.RequestP90, t.P90MS, needP90}, {metric.RequestP99, t.P99MS, needP99}} {
			if q.ms > 0 && t.Requests >= q.need {
				f.setRoute(q.base+"/", name, q.ms)
			}
		}
		// Records from before the quantiles have no failures either: then zero would be wrong.
		if ended := float64(t.Requests) + float64(t.Failed); ended > 0 && t.Failed >= 0 && (t.P50MS > 0 || t.Failed > 0) {
			f.setRoute(metric.RequestErrors+"/", name, float64(t.Failed)/ended)
		}
	}
}

// streamFigures are the times of messages, of answers that stream.
func streamFigures(f *figures, r *result.Record) {
	if r.Error != "" || r.Load == nil || r.Load.Stream == nil {
		return
	}
	s := r.Load.Stream
	for _, x := range []struct {
		base string
		of   result.MessageTimes
	}{{metric.FirstByte, s.FirstByteMS}, {metric.FirstMessage, s.FirstMessageMS}, {metric.MessageGap, s.GapMS}} {
		for _, q := range []struct {
			part string
			ms   float64
			need int64
		}{{"mean", x.of.Mean, 1}, {"p50", x.of.P50, needP50}, {"p90", x.of.P90, needP90}, {"p99", x.of.P99, needP99}} {
			if x.of.Count >= q.need {
				f.set(metric.Of(x.base, q.part), q.ms)
			}
		}
	}
	if seconds := measureSeconds(r.Load); seconds > 0 {
		f.set(metric.MessageRate, float64(s.Messages)*dilution(r.Load, seconds)/seconds)
	}
}

// setRoute sets the metric of a route that has one.
func (f *figures) setRoute(base, path string, v float64) {
	name := base + strings.TrimPrefix(path, "/")
	if _, ok := metric.Lookup(name); ok {
		f.set(name, v)
	}
}
