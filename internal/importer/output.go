package importer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Output is the report of one load generator on one run. A missing figure is
// zero, or nil if zero is a possible value.
type Output struct {
	path        string
	generator   string
	version     string
	Loop        string // open | closed, empty if unknown
	Arrivals    string
	Rate        float64 // intended, 1/s, 0 if unknown or in a closed loop
	connections int
	Seconds     float64 // of the load
	started     time.Time
	sent        float64 // requests per second that were sent
	requests    int64   // answered, with any status
	tried       int64   // answered or not
	classes     map[string]int64
	statuses    map[string]int64
	errors      map[string]int64 // by kind, as named by the generator
	bytesIn     int64
	bytesOut    int64
	latency     result.Latency
	bins        []bin // the whole distribution, in ascending order, nil without counts
	warnings    []result.Warning
}

// bin counts the requests above from and up to to, ns.
type bin struct {
	from, to float64
	count    int64
}

func (o *Output) warn(code, message, hint string, metrics ...string) {
	o.warnings = append(o.warnings, result.Warning{Code: code, Message: message, Hint: hint, Metrics: metrics})
}

// pool merges the outputs of a trial's concurrent generators.
func pool(outs []*Output) (result.Load, []byte, []result.Warning, error) {
	first := outs[0]
	l := result.Load{
		Generator: first.generator, Version: first.version, Loop: first.Loop, Arrivals: first.Arrivals,
		Classes: map[string]int64{}, Statuses: map[string]int64{}, Errors: map[string]int64{},
	}
	var warnings []result.Warning
	for _, o := range outs {
		if o.generator != l.Generator {
			return l, nil, nil, &FileError{Path: o.path, Hinted: hint.Hinted{Err: fmt.Errorf("it is of %s, and %s of %s", o.generator, first.path, first.generator)}}
		}
		l.AskedRate += o.Rate
		l.Connections += o.connections
		l.MeasureSeconds += o.Seconds / float64(len(outs))
		l.Completed += o.requests
		l.Intended += o.tried
		l.BytesIn += o.bytesIn
		l.BytesOut += o.bytesOut
		add(l.Classes, o.classes)
		add(l.Statuses, o.statuses)
		add(l.Errors, o.errors)
		if o.latency.Of != "" {
			l.Published = append(l.Published, o.latency)
		}
		for _, w := range o.warnings {
			if !slices.ContainsFunc(warnings, func(x result.Warning) bool { return x.Code == w.Code }) {
				warnings = append(warnings, w)
			}
		}
		if math.Abs(o.Seconds-first.Seconds) > 0.05*first.Seconds+1 {
			warnings = append(warnings, result.Warning{Code: "generators-apart", Invalidates: true,
				Message: fmt.Sprintf("%s ran for %.0f s and %s for %.0f s: they are not of one run", first.path, first.Seconds, o.path, o.Seconds),
				Hint:    "keep each run's files together, and leave this run out"})
		}
	}
	l.Sent = l.Intended
	if !first.started.IsZero() {
		l.Start, l.End = first.started, first.started.Add(time.Duration(l.MeasureSeconds*1e9))
	}
	c := merged(outs)
	if c == nil {
		return l, nil, warnings, nil
	}
	l.Recorded = c.TotalCount()
	tags := []string{tag(first.latency.Of)}
	if first.Loop == "closed" && first.latency.Of == service {
		tags = append(tags, tag(response)) // a closed loop sends a request at its intended start
	}
	log, err := intervalLog(l.MeasureSeconds, c, tags)
	return l, log, warnings, err
}

const (
	response = "response"
	service  = "service"
)

// tag returns the tag of the interval log's lines for a kind of latency.
func tag(kind string) string {
	return map[string]string{response: load.TagResponse, service: load.TagService}[kind] + string(load.OK)
}

func add(to, from map[string]int64) {
	for k, n := range from {
		if n != 0 {
			to[k] += n
		}
	}
}

const (
	lowestNS = 1000 // ns, to three digits, as generators print times
	digits   = 3
	// No generator waits a day for an answer.
	longestNS = 24 * 3600e9
	// share is the max number of points that a bin's requests are spread over.
	share = 64
)

// merged adds up the generators' distributions. It returns nil if one has no
// counts.
func merged(outs []*Output) *hdrhistogram.PackedHistogram {
	highest := 60e9
	for _, o := range outs {
		if len(o.bins) == 0 || o.latency.Of != outs[0].latency.Of {
			return nil
		}
		highest = math.Max(highest, o.bins[len(o.bins)-1].to)
	}
	if highest > longestNS {
		return nil
	}
	c := hdrhistogram.NewPacked(lowestNS, int64(math.Ceil(highest)), digits)
	for _, o := range outs {
		spread(c, o.bins)
	}
	return c
}

// spread records each bin's requests evenly between its edges: a printed
// distribution has their number and not their values. The last request is at the
// upper edge, where the source measured one.
func spread(c *hdrhistogram.PackedHistogram, bins []bin) {
	for _, b := range bins {
		points := min(b.count, share)
		for k := int64(1); k <= points; k++ {
			n := b.count/points + extra(b.count, points, k)
			v := b.from + (b.to-b.from)*float64(k)/float64(points)
			_ = c.RecordValues(int64(math.Round(v)), n) // within the range that the caller chose
		}
	}
}

// intervalLog writes an interval log of one interval, with one line a tag.
func intervalLog(seconds float64, h *hdrhistogram.PackedHistogram, tags []string) ([]byte, error) {
	var b bytes.Buffer
	log, err := hdrlog.NewWriter(&b, time.Unix(0, 0), "tare: imported, latencies in nanoseconds")
	length := time.Duration(seconds*1e3) * time.Millisecond // not longer than the window
	for _, t := range tags {
		err = errors.Join(err, log.Interval(0, length, t, h))
	}
	if err = errors.Join(err, log.Flush()); err != nil {
		return nil, fmt.Errorf("write latencies: %w", err)
	}
	return b.Bytes(), nil
}

// extra distributes the remainder of count divided by points.
func extra(count, points, k int64) int64 {
	if k > points-count%points {
		return 1
	}
	return 0
}

// check verifies that the printed rate over seconds lies between the numbers of
// responses and of attempts.
func (o *Output) check(rate, seconds float64, most int64) error {
	if !(seconds > 0) || seconds > 1e8 {
		return fmt.Errorf("the run had a duration of %g s", seconds)
	}
	low, high := 0.98*float64(o.requests)-2, 1.02*float64(most)+2
	if n := rate * seconds; !(n >= low && n <= high) {
		return fmt.Errorf("%g requests/s for %.1f s are not the %d that were answered", rate, seconds, o.requests)
	}
	return nil
}

// ascending rejects a distribution in which a higher quantile has a lower value.
func ascending(qs []result.Quantile) error {
	for i := 1; i < len(qs); i++ {
		if qs[i].MS < qs[i-1].MS {
			return fmt.Errorf("quantile %g is %g ms, below quantile %g", qs[i].Q, qs[i].MS, qs[i-1].Q)
		}
	}
	return nil
}

// cumulative is one point of a distribution: count requests took at most ms.
type cumulative struct {
	ms    float64
	count int64
	gap   bool // no values lie between the previous point and this one
}

// bins converts a published histogram into counts between values. Published
// quantiles are points of the same distribution, for values that the histogram
// skips: wrk2 prints 99 % beside a spectrum without this line.
func bins(l result.Latency) ([]bin, error) {
	if len(l.Buckets) == 0 {
		return nil, nil
	}
	var points []cumulative
	total, last := int64(0), 0.0
	for i, b := range l.Buckets {
		if b.Count <= 0 || b.HighMS < b.LowMS || b.LowMS < last || !(b.HighMS <= longestNS/1e6) {
			return nil, fmt.Errorf("bucket %d of the histogram, %d from %g to %g ms, does not follow the one before", i+1, b.Count, b.LowMS, b.HighMS)
		}
		if b.LowMS > last {
			points = append(points, cumulative{b.LowMS, total, true})
		}
		last = b.HighMS
		total += b.Count
		points = append(points, cumulative{b.HighMS, total, false})
	}
	if l.Count > 0 && total != l.Count {
		return nil, fmt.Errorf("the histogram holds %d of %d requests: lines are missing", total, l.Count)
	}
	for _, q := range l.Quantiles {
		points = append(points, cumulative{q.MS, int64(math.Ceil(q.Q*float64(total) - 1e-9)), false})
	}
	slices.SortStableFunc(points, func(a, b cumulative) int {
		return cmp.Or(cmp.Compare(a.count, b.count), cmp.Compare(a.ms, b.ms))
	})
	out := make([]bin, 0, len(points))
	seen, value := int64(0), 0.0
	for _, p := range points {
		switch {
		case p.ms < value: // one value, rounded twice
			continue
		case p.count == seen:
			if p.gap {
				value = p.ms
			}
			continue
		}
		from := value * 1e6
		if len(out) == 0 && value == 0 {
			from = p.ms * 1e6 // the fastest request, not a value between it and 0
		}
		out = append(out, bin{from, p.ms * 1e6, p.count - seen})
		seen, value = p.count, p.ms
	}
	// The last edge is not the slowest request, nor the first one the fastest.
	if n := len(out); n > 0 {
		if slowest := l.MaxMS; slowest != nil && *slowest*1e6 > out[n-1].from {
			out[n-1].to = min(out[n-1].to, *slowest*1e6)
		}
		if fastest := l.MinMS; fastest != nil && *fastest*1e6 < out[0].to {
			out[0].from = max(out[0].from, *fastest*1e6)
		}
	}
	return out, nil
}

// fine reports whether a histogram resolves quantiles: one of a dozen equal
// steps up to the slowest request (oha's) does not.
func fine(buckets []result.Bucket) bool { return len(buckets) > 24 }

// falseTimeouts separates wrk2's false timeouts from real ones. wrk2 checks
// every connection against its 2 s limit, even idle ones. With more connections
// than requests in 2 s, all of them "time out" at every check. The count is then
// a multiple of the connections, although all due requests have responses.
func (o *Output) falseTimeouts() {
	const limit = 2.0 // seconds, the default of wrk2
	n, c := o.errors["timeout"], int64(o.connections)
	idle := c > 0 && float64(c) > limit*float64(o.requests)/o.Seconds
	if o.generator != "wrk2" || n == 0 || !idle || n%c != 0 || n <= o.requests/100 {
		return
	}
	delete(o.errors, "timeout")
	o.errors["false timeout"] = n
	o.classes["timeout"] -= n
	o.tried -= n
	o.warn("false-timeouts", fmt.Sprintf("wrk2 reports %d timeouts, %d for each of its %d connections: it counts connections idle for more than %g s, not requests; they are not errors",
		n, n/c, c, limit), fmt.Sprintf("use fewer connections than %.0f at this rate, or another load generator", math.Max(1, limit*float64(o.requests)/o.Seconds)), metric.ErrorRatio)
}
