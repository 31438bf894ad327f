// Package series makes time series of a run, for databases: the figures of its report, each second of load, and
// trials, phases and faults for annotations.
package series

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
)

// Series is one gauge over time.
type Series struct {
	Name, Help string
	Labels     map[string]string
	Points     []Point // by time
}

// Point is one value.
type Point struct {
	At    time.Time
	Value float64
}

// Bounds of a push: each series costs the database memory for hours.
const (
	mostSeries = 100_000
	mostValues = 5_000_000
)

// longestMarked is the longest time that is marked all along. Records of others can have any times.
const longestMarked = 7 * 24 * time.Hour

// markEvery is the step of annotations. Grafana joins points that are not further apart than its own step.
const markEvery = 5 * time.Second

// Names of the series that the report does not have.
const (
	trialSeries = "tare_trial"
	phaseSeries = "tare_phase"
	faultSeries = "tare_fault"
)

// collector gathers the series of a run.
type collector struct {
	run, experiment string
	all             []Series
	values          int
}

// Of returns the series of a run: the figures of its report at the end of the run, and its trials over time.
func Of(s answer.Analysis) ([]Series, error) {
	c := &collector{run: filepath.Base(s.Dir.Path()), experiment: s.Report.Experiment}
	valid := map[string]bool{}
	for _, t := range s.Report.Trials {
		valid[t.ID] = t.Valid
	}
	end := s.Dir.Environment().Time
	for _, t := range s.Dir.Plan().Trials {
		r, _, err := s.Dir.Record(t)
		if errors.Is(err, fs.ErrNotExist) {
			continue // not yet run
		}
		if err != nil {
			return nil, err
		}
		if r.Ended.After(end) {
			end = r.Ended
		}
		c.trial(s.Dir, t, &r, valid[t.ID])
		if c.full() {
			break
		}
	}
	c.figures(s.Report, end)
	if c.full() {
		return nil, hint.New("push runs with fewer trials", "the run has more than %d series or %d values", mostSeries, mostValues)
	}
	slices.SortStableFunc(c.all, func(a, b Series) int { return cmp.Compare(a.Name, b.Name) }) // a metric's series must be adjacent
	return c.all, nil
}

// trial adds a trial: its annotations, and each second of its load.
func (c *collector) trial(d *result.Dir, t plan.Trial, r *result.Record, valid bool) {
	labels := func(more ...string) map[string]string {
		of := map[string]string{"trial": t.ID, "treatment": t.Treatment, "block": strconv.Itoa(t.Block)}
		for i := 0; i+1 < len(more); i += 2 {
			of[more[i]] = more[i+1]
		}
		return of
	}
	c.add(trialSeries, "1 during a trial, 0 at its end", labels("valid", strconv.FormatBool(valid)), span(r.Started, r.Ended))
	for _, p := range r.Phases {
		if c.full() {
			return
		}
		c.add(phaseSeries, "1 during a phase of a trial, 0 at its end", labels("phase", p.Name), span(p.Start, p.End))
	}
	for _, f := range r.Faults {
		if c.full() {
			return
		}
		healed := f.Healed
		if healed.IsZero() {
			healed = r.Ended
		}
		c.add(faultSeries, "1 during a fault, 0 at its end", labels("fault", strconv.Itoa(f.Index), "kind", f.Kind), span(f.Start, healed))
	}
	if r.Load == nil {
		return
	}
	began := r.Load.Start.Add(-time.Duration(r.Load.WarmupSeconds * float64(time.Second)))
	points := map[string][]Point{}
	cores := map[string][]Point{}
	read := 0
	for e, err := range d.Events(t.ID) {
		if read++; err != nil || read > mostValues {
			break // the report has the warning
		}
		if p := e.Progress; p != nil {
			at := began.Add(time.Duration(p.Second+1) * time.Second)
			for _, of := range seconds {
				if v, ok := of.value(p); ok {
					points[of.name+of.quantile] = append(points[of.name+of.quantile], Point{at, v})
				}
			}
		}
		if e.Sample != nil {
			for part, v := range e.Sample.Cores {
				cores[part] = append(cores[part], Point{e.Time, v})
			}
		}
	}
	for _, of := range seconds {
		c.add(of.name, of.help, labels("quantile", of.quantile), ordered(points[of.name+of.quantile]))
	}
	for _, part := range slices.Sorted(maps.Keys(cores)) {
		c.add("tare_trial_cpu_cores", "CPU of a plane since the reading before, cores", labels("part", part), ordered(cores[part]))
	}
}

func (c *collector) add(name, help string, labels map[string]string, points []Point) {
	if len(points) == 0 || c.full() {
		return
	}
	c.values += len(points)
	of := map[string]string{"job": "tare", "run": c.run, "experiment": c.experiment}
	maps.Copy(of, labels)
	maps.DeleteFunc(of, func(_, v string) bool { return v == "" }) // an empty label is an absent one
	c.all = append(c.all, Series{name, help, of, points})
}

func (c *collector) full() bool { return len(c.all) > mostSeries || c.values > mostValues }

// seconds are the series of each second of load.
var seconds = []struct {
	name, quantile, help string
	value                func(*result.Progress) (float64, bool)
}{
	{"tare_trial_requests_per_second", "", "answers in a second of load", func(p *result.Progress) (float64, bool) { return p.WhileLoaded(), p.HasLoad() }},
	{"tare_trial_asked_per_second", "", "target rate in a second of load", func(p *result.Progress) (float64, bool) { return p.AskedRate, p.AskedRate > 0 }},
	{"tare_trial_failed_per_second", "", "failed requests in a second of load", func(p *result.Progress) (float64, bool) {
		if p.Loaded == nil || *p.Loaded <= 0 {
			return float64(p.Errors), true
		}
		return float64(p.Errors) / *p.Loaded, true
	}},
	{"tare_trial_response_ms", "0.5", "response time of a second of load, ms", func(p *result.Progress) (float64, bool) { return p.P50MS, p.P50MS > 0 }},
	{"tare_trial_response_ms", "0.99", "response time of a second of load, ms", func(p *result.Progress) (float64, bool) { return p.P99MS, p.P99MS > 0 }},
}

// span is 1 from one instant to another, and 0 a millisecond later.
func span(from, to time.Time) (points []Point) {
	if from.IsZero() || to.Before(from) {
		return nil
	}
	if to.Sub(from) > longestMarked {
		return ordered([]Point{{from, 1}, {to, 1}, {to.Add(time.Millisecond), 0}})
	}
	for at := from; at.Before(to); at = at.Add(markEvery) {
		points = append(points, Point{at, 1})
	}
	return ordered(append(points, Point{to, 1}, Point{to.Add(time.Millisecond), 0}))
}

// ordered sorts points, and leaves out all but the last of a millisecond: databases have no finer time.
func ordered(points []Point) []Point {
	slices.SortStableFunc(points, func(a, b Point) int { return a.At.Compare(b.At) })
	var all []Point
	for _, p := range points {
		if n := len(all); n > 0 && all[n-1].At.UnixMilli() == p.At.UnixMilli() {
			all = all[:n-1]
		}
		all = append(all, p)
	}
	return all
}

// Batches divides series into requests of a bounded number of points, the oldest points first: databases refuse
// points that are much older than the newest they have.
func Batches(all []Series, most int) [][]Series {
	type place struct {
		series int
		Point
	}
	var points []place
	for i, s := range all {
		for _, p := range s.Points {
			points = append(points, place{i, p})
		}
	}
	slices.SortStableFunc(points, func(a, b place) int { return a.At.Compare(b.At) })
	var parts [][]Series
	for chunk := range slices.Chunk(points, most) {
		slices.SortStableFunc(chunk, func(a, b place) int { return cmp.Compare(a.series, b.series) })
		var part []Series
		last := -1
		for _, p := range chunk {
			if p.series != last {
				s := all[p.series]
				s.Points = nil
				part, last = append(part, s), p.series
			}
			s := &part[len(part)-1]
			s.Points = append(s.Points, p.Point)
		}
		parts = append(parts, part)
	}
	return parts
}

// Count is the number of series and points.
func Count(all []Series) string {
	points := lists.Sum(all, func(s Series) int { return len(s.Points) })
	return fmt.Sprintf("%d series with %s", len(all), printable.Counted(points, "value"))
}

// figures adds the figures of a report at one instant. The part of a metric's name is the label part, and the label
// stat is estimate, low or high: an unknown interval has only the estimate. Differences from the baseline and ratios
// to it have names of their own.
func (c *collector) figures(r *answer.Report, at time.Time) {
	for _, t := range r.Treatments {
		c.add("tare_trials", "valid trials of a treatment", figureLabels(t.ID, t.Factors, t.Control, ""), []Point{{at, float64(t.N)}})
		for _, m := range metric.Known(t.Metrics) {
			help := m.Doc
			if m.Unit != "" {
				help += ", " + m.Unit
			}
			c.interval(seriesName(m.Name), help, figureLabels(t.ID, t.Factors, t.Control, m.Name), t.Metrics[m.Name].Interval, at)
		}
	}
	for _, x := range r.Comparisons {
		labels := figureLabels(x.Treatment, x.Factors, x.Control, x.Metric)
		labels["against"] = x.Baseline
		if x.Difference != nil {
			c.interval(seriesName(x.Metric)+"_difference", "difference to the baseline, "+x.Unit, labels, *x.Difference, at)
		}
		if x.Ratio != nil {
			c.interval(seriesName(x.Metric)+"_over_baseline", "ratio to the baseline", labels, *x.Ratio, at)
		}
	}
}

func (c *collector) interval(name, help string, labels map[string]string, i stats.Interval, at time.Time) {
	add := func(stat string, v float64) {
		of := maps.Clone(labels)
		of["stat"] = stat
		c.add(name, help, of, []Point{{at, v}})
	}
	add("estimate", i.Estimate)
	if i.Known() {
		add("low", *i.Low)
		add("high", *i.High)
	}
}

func figureLabels(treatment string, factors plan.Factors, control bool, metricName string) map[string]string {
	labels := map[string]string{"treatment": treatment}
	for name, level := range factors {
		if name != plan.ControlFactor {
			labels["factor_"+nameChars(name)] = report.Level(level)
		}
	}
	if control {
		labels[plan.ControlFactor] = "true"
	}
	if _, part, ok := strings.Cut(metricName, "/"); ok {
		labels["part"] = part
	}
	return labels
}

func seriesName(metricName string) string { return "tare_" + nameChars(metric.Base(metricName)) }

// nameChars replaces the characters that a name of a series or label cannot have.
func nameChars(s string) string {
	return printable.Plain(s, "_", '_')
}

// Protocol is how a receiver takes series.
type Protocol string

// The protocols.
const (
	RemoteWrite Protocol = "remote-write"
	OTLP        Protocol = "otlp"
)

// Protocols are all of them.
func Protocols() []string { return []string{string(RemoteWrite), string(OTLP)} }

// endings of paths, by which a protocol is recognised.
var endings = []struct {
	path string
	of   Protocol
}{
	{"/api/v1/write", RemoteWrite}, {"/api/v1/push", RemoteWrite}, {"/api/v1/receive", RemoteWrite}, {"/v1/metrics", OTLP},
}

// Target is a receiver.
type Target struct {
	URL      *url.URL
	Protocol Protocol
	Header   http.Header // secrets: in no message
	// Retrying is called before each repetition, unless it is nil.
	Retrying func(why string)
}

// ParseTarget checks a URL. An empty protocol is recognised by the path.
func ParseTarget(address string, protocol Protocol) (*Target, error) {
	u, err := printable.ParseURL(address)
	switch {
	case err != nil:
		return nil, hint.New("write it as http://127.0.0.1:9090/api/v1/write", "the URL is not valid: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, hint.New("write it as http://127.0.0.1:9090/api/v1/write", "the URL has to begin with http:// or https:// and a host")
	case u.User != nil:
		return nil, hint.New(byHeader, "the URL has a password, which other users of this machine can read")
	}
	t := &Target{URL: u, Protocol: protocol}
	for _, e := range endings {
		if t.Protocol == "" && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), e.path) {
			t.Protocol = e.of
		}
	}
	if protocol != "" && !slices.Contains(Protocols(), string(protocol)) {
		return nil, hint.New("protocols: "+strings.Join(Protocols(), ", "), "unknown protocol %q", protocol)
	}
	if t.Protocol == "" {
		return nil, hint.New("add --push-protocol "+strings.Join(Protocols(), " or --push-protocol "), "the path %q is of no known protocol", u.Path)
	}
	return t, nil
}

// String is the URL without its query, which may have a secret.
func (t *Target) String() string {
	u := *t.URL
	u.RawQuery, u.Fragment = "", ""
	return u.String()
}

// byHeader is the hint of requests that need authorization.
const byHeader = `add --push-header "Authorization: Bearer ${env:TOKEN}"`

// cures are for answers that databases give.
var cures = []struct {
	texts []string
	cure  string
}{
	{[]string{"out of bounds", "too old", "out of order", "out-of-order"}, "the run is older than the database accepts, or was pushed before: set out_of_order_time_window (Prometheus: storage.tsdb)"},
	{[]string{"duplicate sample"}, "the run was pushed before with other figures, such as by an older tare: delete its series first"},
	{[]string{"401 Unauthorized", "403 Forbidden"}, byHeader},
	{[]string{"404 Not Found", "405 Method Not Allowed"}, "check the path; Prometheus needs --web.enable-remote-write-receiver or --web.enable-otlp-receiver"},
	{[]string{"415 Unsupported Media Type"}, "check the protocol: --push-protocol"},
	{[]string{"301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"}, "redirects are not followed: write the final URL"},
	{[]string{"connection refused"}, "start the receiver, or check host and port"},
	{[]string{"no such host"}, "check the host"},
	{[]string{"certificate"}, "set SSL_CERT_FILE to the file of the certificate authority"},
}

const mostText = 500 // bytes of others' text in a message

// Problem is an error without secrets, with a cure where one is known.
func (t *Target) Problem(err error) error {
	text := err.Error()
	hide := []string{t.URL.RawQuery}
	for _, of := range []map[string][]string{t.Header, t.URL.Query()} {
		for _, values := range of {
			for _, v := range values {
				hide = append(append(hide, v), strings.Fields(v)...)
			}
		}
	}
	for _, secret := range hide {
		if len(secret) >= shortestSecret {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	text = strings.TrimSpace(printable.Line(text))
	cure := ""
	for _, c := range cures {
		if cure == "" && slices.ContainsFunc(c.texts, func(s string) bool { return strings.Contains(text, s) }) {
			cure = c.cure
		}
	}
	if len(text) > mostText {
		text = strings.ToValidUTF8(text[:mostText], "") + "…"
	}
	return hint.Wrap(fmt.Errorf("push to %s: %s", t, text), cure)
}

// shortestSecret in bytes: "Bearer" is none.
const shortestSecret = 8
