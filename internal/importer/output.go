package importer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/base/hdrlog"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
	"github.com/tare-mesh/tare/internal/stats"
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

// ParseOutput parses the output of a load generator and checks that its figures
// are consistent. An edited, truncated or joined file is inconsistent.
func ParseOutput(generator, path string, b []byte, corrected bool) (*Output, error) {
	f := formatOf(generator)
	if records := f.recordsOf(b); records != nil {
		return records.read(bytes.NewReader(b), generator, path, corrected)
	}
	if f.name == "" {
		return nil, &FileError{Path: path, Hinted: hint.Hinted{Err: fmt.Errorf("no reader for %s", generator)}}
	}
	if err := f.foreign(path, b); err != nil {
		return nil, err
	}
	if err := f.whole(path, b); err != nil {
		return nil, err
	}
	oc, err := f.parse(bytes.NewReader(b), corrected)
	if err != nil {
		return nil, parseError(path, b, err)
	}
	o := newOutput(f, path)
	o.generator, o.version, o.Seconds, o.statuses, o.started = oc.Generator, oc.Version, oc.Elapsed.Seconds(), oc.Statuses, oc.Started
	o.Loop = cmp.Or(oc.Loop, o.Loop)
	if err := o.add(oc, f); err != nil {
		return nil, damaged(path, Lines(b), generator, err)
	}
	o.falseTimeouts()
	return o, nil
}

func newOutput(f format, path string) *Output {
	return &Output{path: path, Loop: f.loop, Arrivals: f.arrivals, classes: map[string]int64{}, errors: map[string]int64{}}
}

// damaged is the error of an output whose figures do not fit.
func damaged(path string, line int, generator string, err error) error {
	return &FileError{Path: path, Line: line, Hinted: hint.Hinted{Err: err, Text: cmp.Or(hint.Of(err), "the file was damaged or cut off, or is not "+generator+"'s: restore it, or leave this run out")}}
}

// whole checks that the marks of a complete text occur exactly once.
func (f format) whole(path string, b []byte) error {
	if !bytes.HasPrefix(bytes.TrimLeft(b, " \r\n\t"), []byte(f.head)) {
		return nil
	}
	for _, mark := range f.once {
		switch n := bytes.Count(b, []byte(mark)); {
		case n == 0:
			return &FileError{Path: path, Line: Lines(b), Hinted: hint.Hinted{Err: fmt.Errorf("it has no %q: it was cut off, or is of another program", mark), Text: "restore the file, or leave this run out"}}
		case n > 1:
			second := bytes.LastIndex(b, []byte(mark))
			return &FileError{Path: path, Line: Lines(b[:second]), Hinted: hint.Hinted{Err: fmt.Errorf("%q occurs %d times: files were joined", mark, n), Text: "restore the file, or leave this run out"}}
		}
	}
	return nil
}

// parseError finds the line of a parse error that has only an offset, or no
// position.
func parseError(path string, b []byte, err error) error {
	e := &FileError{Path: path, Line: 1, Hinted: hint.Hinted{Err: err, Text: cmp.Or(hint.Of(err), "the file was damaged or cut off: restore it, or leave this run out")}}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	to := func(offset int64) int { return Lines(b[:min(len(b), int(max(offset, 0)))]) }
	switch {
	case errors.As(err, &syntax):
		e.Line = to(syntax.Offset)
	case errors.As(err, &kind):
		e.Line = to(kind.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Line = Lines(b)
	case strings.Contains(err.Error(), "line "):
		e.Line = 0 // the error contains it
	}
	return e
}

// Lines returns the number of the last line of b, from 1.
func Lines(b []byte) int { return bytes.Count(b, []byte("\n")) + 1 }

func (o *Output) add(oc generator.Outcome, f format) error {
	if err := oc.Impossible(); err != nil {
		return err
	}
	o.Rate, o.connections, o.bytesIn, o.bytesOut = known(oc.AskedRate), known(oc.Connections), known(oc.BytesIn), known(oc.BytesOut)
	for kind, n := range oc.Errors {
		if n < 0 {
			return fmt.Errorf("%d of error %.40q", n, kind)
		}
		if n > 0 && oc.Records == nil { // records are counted below
			o.errors[kind] = n
		}
	}
	if oc.Records != nil {
		if err := o.records(oc); err != nil {
			return err
		}
	}
	if err := o.count(oc); err != nil {
		return err
	}
	if o.bins == nil {
		if err := o.distribution(oc.Latencies); err != nil {
			return err
		}
	}
	o.latency.Source = o.path
	if good := o.classes["2xx"]; good == 0 && len(o.classes) > 0 {
		o.latency, o.bins = result.Latency{}, nil // of failures only
	} else if failed := o.tried - good; f.failures && len(o.classes) > 0 && failed > 0 && oc.Records == nil {
		o.warn("source-note", fmt.Sprintf("latencies of %s are of all requests, %d failed ones of %d among them", o.generator, failed, o.tried), "", metric.Latency, metric.ServiceTime)
	}
	for _, n := range oc.Notes {
		o.warn("source-note", n, "")
	}
	return nil
}

// known is a figure of the source, 0 if it is unknown.
func known[T int | int64 | float64](figure *T) (n T) {
	if figure != nil {
		n = *figure
	}
	return n
}

// distribution uses the response times of the source, else its service times.
func (o *Output) distribution(ls []result.Latency) error {
	for _, l := range ls {
		if l.Of != response && l.Of != service {
			continue
		}
		if err := ascending(l.Quantiles); err != nil {
			return err
		}
		if o.latency.Of == "" || l.Of == response {
			o.latency = l
		}
	}
	if o.latency.Count > 0 && o.latency.Count > o.requests+sum(o.errors) {
		return fmt.Errorf("the latencies are of %d requests, and there were %d", o.latency.Count, o.requests)
	}
	b, err := bins(o.latency)
	if err != nil || !fine(o.latency.Buckets) {
		return err
	}
	counted := lists.Sum(b, func(x bin) int64 { return x.count })
	if counted > o.requests+sum(o.errors) {
		return fmt.Errorf("the histogram is of %d requests, and there were %d", counted, o.requests)
	}
	o.bins = b
	return nil
}

// count computes the number of requests and of their outcomes.
func (o *Output) count(oc generator.Outcome) error {
	if oc.Records == nil {
		if err := o.answers(oc); err != nil {
			return err
		}
	}
	o.tried = o.requests - oc.Slow
	for kind, n := range o.errors {
		o.classes[string(generator.ClassOfError(kind))] += n
		o.tried += n
	}
	if o.tried == 0 {
		return errors.New("it has no request")
	}
	most := max(o.tried, known(oc.Requests), known(oc.AllRequests))
	wrk := o.generator == "wrk2" || o.generator == "wrk"
	switch {
	case wrk && oc.Rate == nil:
		return errors.New("its Requests/sec is not a number")
	case oc.Rate == nil:
		rate := float64(o.tried) / math.Max(o.Seconds, 1e-9)
		o.sent = cmp.Or(o.sent, rate)
		return o.check(rate, o.Seconds, most)
	case o.Seconds <= 0 && *oc.Rate > 0:
		o.Seconds = float64(cmp.Or(o.requests, o.tried)) / *oc.Rate // a run without an answer has a duration too
	}
	o.sent = *oc.Rate
	seconds := o.Seconds
	if oc.Sending > 0 && o.tried > 1 { // one request has no time between the first and the last
		seconds = oc.Sending.Seconds()
	}
	if err := o.check(*oc.Rate, seconds, most); err != nil {
		return err
	}
	if wrk && o.requests > 0 {
		// Their duration is "5.00m", and their rate has two decimals.
		o.Seconds = float64(o.requests) / *oc.Rate
	}
	return nil
}

// answers counts responses by status, or as good and bad without statuses. Without
// either their classes are unknown.
func (o *Output) answers(oc generator.Outcome) error {
	for code, n := range oc.Statuses {
		switch {
		case n < 0:
			return fmt.Errorf("%d answers of status %.20q", n, code)
		case code == "0" || strings.HasPrefix(code, "-"):
			o.errors["no answer"] += n
			continue
		case strings.HasPrefix(code, "2") && len(code) == 3 || code == "SERVING" || code == "OK":
			o.classes["2xx"] += n
		default:
			o.classes["status"] += n
		}
		o.requests += n
	}
	switch {
	case oc.Statuses != nil:
	case oc.OK != nil:
		o.classes["2xx"], o.requests = *oc.OK, *oc.OK+oc.Slow
		if oc.NotOK != nil {
			o.classes["status"] = *oc.NotOK
		}
		o.requests += known(oc.NotOK)
	case oc.Requests != nil:
		o.requests = max(0, *oc.Requests-sum(o.errors))
		o.warn("source-note", "the output has no statuses: failed responses are unknown", "", metric.ErrorRatio)
	}
	return nil
}

// records counts a generator's own record of every request.
func (o *Output) records(oc generator.Outcome) error {
	c := requests{sized: oc.BytesIn != nil}
	for _, r := range oc.Records {
		c.add(o, r)
	}
	return c.finish(o)
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// executed are the executions of one program in a file, one after another.
type executed struct {
	program  string // "" if only the name of the file names it
	readings []execution.Reading
}

// readHyperfine reads the file of hyperfine --export-json: a program for each result. Times of the processors are means in it.
func readHyperfine(b []byte) (all []executed, err error) {
	var file struct {
		Results []struct {
			Command      string
			Mean, Median float64
			Min, Max     float64
			User, System float64
			Times        []float64 // s
			Codes        []*int    `json:"exit_codes"` // null: ended by a signal
			Memory       []int64   `json:"memory_usage_byte"`
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("read output of hyperfine: %w", err)
	}
	for _, r := range file.Results {
		n := len(r.Times)
		wrong := func(what string, printed, of float64) error {
			return fmt.Errorf("the %s of %.40q is %g s, and its times have %g s", what, r.Command, printed, of)
		}
		sorted := slices.Sorted(slices.Values(r.Times))
		switch {
		case n == 0:
			return nil, fmt.Errorf("%.40q has no times", r.Command)
		case sorted[0] == 0:
			return nil, fmt.Errorf("%.40q has a time of 0 s, after hyperfine subtracted its shell's: run hyperfine -N", r.Command)
		case !(sorted[0] > 0) || sorted[n-1] > maxSeconds || !(r.User >= 0 && r.User <= maxSeconds) || !(r.System >= 0 && r.System <= maxSeconds):
			return nil, fmt.Errorf("%.40q has an impossible time", r.Command)
		case len(r.Codes) > 0 && len(r.Codes) != n || len(r.Memory) > 0 && len(r.Memory) != n:
			return nil, fmt.Errorf("%.40q has %d times, %d exit codes and %d sizes of memory", r.Command, n, len(r.Codes), len(r.Memory))
		}
		for _, f := range []struct {
			what        string
			printed, of float64
		}{{"mean", r.Mean, stats.Mean(r.Times)}, {"median", r.Median, (sorted[(n-1)/2] + sorted[n/2]) / 2}, {"minimum", r.Min, sorted[0]}, {"maximum", r.Max, sorted[n-1]}} {
			if !(math.Abs(f.printed-f.of) <= 1e-6*f.of) {
				return nil, wrong(f.what, f.printed, f.of)
			}
		}
		x := executed{program: r.Command}
		for i, s := range r.Times {
			reading := execution.Reading{Wall: nanoseconds(s), User: nanoseconds(r.User), System: nanoseconds(r.System)}
			if len(r.Codes) > 0 {
				reading.Exit = signalled
				if code := r.Codes[i]; code != nil {
					reading.Exit = *code
				}
			}
			if len(r.Memory) > 0 {
				reading.Peak = max(0, r.Memory[i])
			}
			x.readings = append(x.readings, reading)
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		return nil, errors.New("read output of hyperfine: it has no results")
	}
	return all, nil
}

const (
	maxSeconds = 1e8 // of an execution: three years
	signalled  = 128 // exit code of an execution that a signal ended, whose number is unknown
)

func nanoseconds(s float64) int64 { return int64(math.Round(s * 1e9)) }

// packageLine begins the results of a package.
var packageLine = regexp.MustCompile(`(?m)^(?:goos: .*\n)?(?:goarch: .*\n)?pkg: (.*)\n`)

// failedBenchmark is a line of `go test` about benchmarks that failed.
var failedBenchmark = regexp.MustCompile(`(?m)^(?:--- )?FAIL\b.*$`)

// readBenchmarks reads an output of `go test -bench`, or several that were appended to one file: each is a run. Repetitions by -count
// are of one run.
func readBenchmarks(b []byte) (all []executed, err error) {
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	begin, seen := 0, map[string]bool{}
	end := func(at int) error {
		text := b[begin:at]
		figures, damaged := execution.Benchmarks(text)
		if damaged != nil {
			_, line := damaged.Pos()
			return fmt.Errorf("read output of go test: line %d: %s", Lines(b[:begin])+line-1, damaged.Msg)
		}
		r := execution.Reading{Benchmarks: figures}
		switch failed := failedBenchmark.Find(text); {
		case failed != nil:
			r.Exit, r.Last = 1, []string{printable.Clip(string(failed), 200)}
		case figures == nil:
			return nil // packages without benchmarks
		}
		all = append(all, executed{readings: []execution.Reading{r}})
		return nil
	}
	for _, m := range packageLine.FindAllSubmatchIndex(b, -1) {
		if name := string(b[m[2]:m[3]]); !seen[name] {
			seen[name] = true
			continue
		}
		if err := end(m[0]); err != nil {
			return nil, err
		}
		begin = m[0]
		clear(seen)
		seen[string(b[m[2]:m[3]])] = true
	}
	if err := end(len(b)); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("read output of go test: it has no benchmark")
	}
	return all, nil
}

// trials creates the trials of a file: one for each program in it.
func (f format) trials(path, name string, o Options) (all []Trial) {
	if f.executions == nil {
		return []Trial{f.trial(path, name, o)}
	}
	b, err := readWhole(path)
	var found []executed
	if err == nil {
		err = f.foreign(path, b)
	}
	if err == nil {
		if found, err = f.executions(b); err != nil {
			err = parseError(path, b, err)
		}
	}
	name = cmp.Or(o.Mesh, name)
	if err != nil {
		t := Trial{Application: name, Run: path, Files: []string{path}}
		t.Fail(errors.New(printable.Translate(err.Error())))
		return []Trial{t}
	}
	for _, x := range found {
		t := Trial{Application: cmp.Or(x.program, name), Mesh: name, Run: path, Files: []string{path}}
		t.Record.Valid, t.Record.Executions = true, x.readings
		if len(t.Record.FailedExecutions()) > 0 {
			t.Invalidate("errors", t.Record.ExecutionFailures(), "leave this run out")
		}
		all = append(all, t)
	}
	return all
}

// nameApplications names the programs of executions: by their files, if all files have one and the same program, so that old.json and
// new.json are compared. Names that one identifier would have are numbered.
func (s *Study) nameApplications() {
	programs, files := map[string]bool{}, map[string]bool{}
	for i := range s.Trials {
		if t := &s.Trials[i]; t.Record.Error == "" {
			programs[t.Application], files[t.Mesh] = true, true
		}
	}
	taken := map[string]string{} // programs by identifier
	for i := range s.Trials {
		t := &s.Trials[i]
		if len(programs) == 1 && len(files) > 1 && t.Mesh != "" {
			t.Application = t.Mesh
		}
		name := safe(t.Application)
		for n := 2; taken[name] != "" && taken[name] != t.Application; n++ {
			name = fmt.Sprintf("%s-%d", safe(t.Application), n)
		}
		taken[name] = t.Application
		t.Application, t.Mesh = name, ""
	}
	s.Meshes = nil
}
