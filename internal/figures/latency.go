package figures

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// latency is the family of metrics of one tag of the interval log.
type latency struct {
	base    string
	tag     string
	perUnit float64 // ns
}

var latencies = []latency{
	{metric.Latency, load.TagResponse + string(load.OK), 1e6},
	{metric.ServiceTime, load.TagService + string(load.OK), 1e6},
	{metric.Lateness, load.TagLateness, 1e3},
}

// latencyTags are the tags of the interval log that metrics need.
var latencyTags = []string{latencies[0].tag, latencies[1].tag, latencies[2].tag}

// quantiles by the part of a latency metric's name.
var quantiles = []struct {
	part string
	q    float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}}

var percentiles = func() (ps []float64) {
	for _, q := range quantiles {
		ps = append(ps, 100*q.q)
	}
	return ps
}()

// tailSamples is the number of samples that must lie beyond a quantile for it to mean
// anything: 10, hence 10/(1-q) in all. With fewer, the estimate is one of the
// last order statistics and moves by tens of percent from run to run.
const tailSamples = 10

// latencyNames are the families of latencies. Other metrics of the log are known without it if no request failed.
var latencyNames = []string{latencies[0].base, latencies[1].base, latencies[2].base}

// latencyFigures adds the metrics of the trial's interval log at path.
func latencyFigures(f *figures, r *result.Record, path string, published bool) {
	if r.Error != "" || r.Load == nil {
		return
	}
	if published {
		publishedLatency(f, r.Load)
		return
	}
	from := r.Load.WarmupSeconds
	merged, err := readMeasured(path, hdrlog.Window{From: from, To: from + measureSeconds(r.Load)}, r.Load)
	switch {
	case errors.Is(err, fs.ErrNotExist) && wordsOnly(f, r.Load):
		return
	case errors.Is(err, fs.ErrNotExist):
		f.warn("latency-missing", latencyNames, "the trial has no latency log", "latencies are unknown: the load generator writes no log, or the file was moved")
		return
	case err != nil:
		f.warn("latency-damaged", latencyNames, err.Error(), "latencies of this trial are withheld: restore the file")
		return
	}
	for _, l := range latencies {
		if merged.Total(l.tag) > 0 {
			distribution(f, l.base, l.perUnit, merged[l.tag])
		}
	}
	checkCount(f, r.Load, answers(merged))
}

func distribution(f *figures, base string, perUnit float64, h *hdrhistogram.PackedHistogram) {
	n := h.TotalCount()
	f.set(base+"/mean", h.Mean()/perUnit)
	f.set(base+"/max", float64(h.Max())/perUnit)
	values := h.ValueAtPercentilesSlice(percentiles)
	for i, q := range quantiles {
		name := base + "/" + q.part
		f.set(name, float64(values[i])/perUnit)
		if need := tailSamples / (1 - q.q); float64(n) < math.Round(need) {
			f.warn("too-few-requests", []string{name}, fmt.Sprintf("%s has %s and needs %.0f", name, printable.Counted(int(n), "request"), need),
				"measure longer, or at a higher rate, or ignore this quantile")
		}
	}
}

// checkCount compares the log with the generator's own count. They are the same
// requests if the window is of whole intervals of the log. A log that was cut, doubled or
// belongs to another trial is noticed here.
func checkCount(f *figures, l *result.Load, got int64) {
	want, counted := l.Classes[string(load.OK)]
	switch {
	case l.Recorded > 0:
		want = l.Recorded
	case !counted || !whole(l.WarmupSeconds) || !whole(l.MeasureSeconds):
		return
	}
	if math.Abs(float64(got-want)) <= math.Max(2, 0.001*float64(want)) {
		return
	}
	f.withheld = latencyNames
	if _, lost := CountEnded(l); lost > 0 { // outages are read from the log only then
		f.withheld = metric.From(metric.LatencyLog)
	}
	f.warn("latency-count", f.withheld, fmt.Sprintf("the latency log contains %d responses of the measure window, the load generator counted %d", got, want),
		"the log is truncated, duplicated, or of another trial: latencies of this trial are withheld")
}

func whole(v float64) bool { return math.Abs(v-math.Round(v)) < 1e-3 }
