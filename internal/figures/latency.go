package figures

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
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
			m, _ := metric.Lookup(name)
			f.warn("too-few-requests", []string{name}, fmt.Sprintf("%s has %s and needs %.0f", m.Title(), printable.Counted(int(n), "request"), need),
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

// ResponseTimes returns the response times of a trial's measure window in nanoseconds, nil if the load generator keeps none. A trial
// without a latency log is an error that is fs.ErrNotExist.
func ResponseTimes(d *result.Dir, r *result.Record) (*hdrhistogram.Histogram, error) {
	if r.Load == nil {
		return nil, nil
	}
	from := r.Load.WarmupSeconds
	merged, err := readMeasured(d.TrialFile(r.ID, result.LatencyFile), hdrlog.Window{From: from, To: from + measureSeconds(r.Load)}, r.Load)
	return hdrlog.Dense(merged[latencies[0].tag]), err
}

// readMeasured reads the window of the log at path. It uses the sums beside the log
// if they hold as many answers as the load generator counted, else the log itself.
func readMeasured(path string, w hdrlog.Window, l *result.Load) (hdrlog.Sums, error) {
	want := cmp.Or(l.Recorded, l.Classes[string(load.OK)])
	merged, err := hdrlog.ReadFile(filepath.Join(filepath.Dir(path), result.MeasuredFile), w, latencyTags)
	if err == nil && want > 0 && answers(merged) == want {
		return merged, nil
	}
	return hdrlog.ReadFile(path, w, latencyTags)
}

// answers counts the response times, or the service times of a generator without response times.
func answers(m hdrlog.Sums) int64 {
	if n := m.Total(latencies[0].tag); n > 0 {
		return n
	}
	return m.Total(latencies[1].tag)
}

// byTheSecond are the metrics that take more than counts.
var byTheSecond = slices.DeleteFunc(metric.From(metric.LatencyLog), func(name string) bool { return slices.Contains(latencyNames, name) })

// failureFigures computes the number and the duration of failures. Without
// failures it does not read the interval log.
func failureFigures(f *figures, r *result.Record, path string) {
	if r.Error != "" || r.Load == nil {
		return
	}
	for name, n := range r.MeshCounters {
		f.set(metric.MeshPrefix+name, float64(n))
	}
	if n, known := arrivedPerRequest(r); known {
		f.set(metric.Arrived, n)
	}
	all, lost := CountEnded(r.Load)
	if all == 0 {
		return
	}
	f.set(metric.RequestsLost, float64(lost))
	if n, known := r.Load.Classes[string(load.Timeout)]; known {
		f.set(metric.Timeouts, float64(n))
	}
	if lost == 0 {
		f.set(metric.LongestOutage, 0)
		if len(r.FaultTimes()) > 0 {
			f.set(metric.Recovery, 0)
		}
		return
	}
	outages(f, r, path)
}

// arrivedPerRequest counts the requests that arrived at the services whose replicas have faults, over those that the load sent. It is
// unknown if such a service has no counter, or a replica whose counter ended.
func arrivedPerRequest(r *result.Record) (float64, bool) {
	hit := map[string]bool{}
	for _, f := range r.Faults {
		for _, t := range r.Tasks {
			if t.Service != "" && slices.ContainsFunc(f.Targets, func(target string) bool { return t.ID == target || strings.HasPrefix(t.ID, target+"/") }) {
				hit[t.Service] = true
			}
		}
	}
	if r.Balance == nil || len(hit) == 0 {
		return 0, false
	}
	var sent, arrived int64
	counted := map[string]bool{}
	for _, f := range r.Balance.Flows {
		switch {
		case f.Unit != balance.Requests:
		case f.Point == balance.Sent && f.Service == balance.LoadName && f.Unknown == "":
			sent += f.Count
		case f.Point == balance.Served && hit[f.Service] && f.Unknown == "":
			arrived, counted[f.Service] = arrived+f.Count, true
		}
	}
	return float64(arrived) / float64(max(sent, 1)), sent > 0 && len(counted) == len(hit)
}

// CountEnded counts the requests that ended in the measure window, and how many of these failed.
func CountEnded(l *result.Load) (all, lost int64) {
	for class, n := range l.Classes {
		all += n
		if class != string(load.OK) {
			lost += n
		}
	}
	return all, lost
}

// outages reads the seconds of the measure window.
func outages(f *figures, r *result.Record, path string) {
	if !whole(r.Load.WarmupSeconds) || !whole(r.Load.MeasureSeconds) {
		f.warn("failures-unplaced", byTheSecond, "the measure window is not a whole number of seconds: the time of failures is unknown", "measure for whole seconds")
		return
	}
	first, n := r.Load.Window()
	seconds, err := expect.ReadSeconds(path, first, n)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.warn("failures-unplaced", byTheSecond, "the trial has no latency log: the time of failures is unknown", "use a load generator with a latency log")
		return
	case err != nil:
		f.warn("failures-unplaced", byTheSecond, err.Error(), "restore the file")
		return
	}
	trial := expect.Trial{Seconds: seconds, Faults: r.FaultTimes()}
	f.set(metric.LongestOutage, trial.LongestOutage())
	if len(trial.Faults) == 0 {
		return
	}
	if v, ok := trial.Recovery(false); ok {
		f.set(metric.Recovery, v)
		return
	}
	f.warn("not-recovered", []string{metric.Recovery}, fmt.Sprintf("after at least one of %d faults requests still failed at the next fault or at the end", len(trial.Faults)),
		"the time to recover is longer than the time measured between faults: see longest_outage_s, or leave more time between faults")
}

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

func (f *figures) setRoute(base, path string, v float64) {
	name := base + strings.TrimPrefix(path, "/")
	if _, ok := metric.Lookup(name); ok {
		f.set(name, v)
	}
}
