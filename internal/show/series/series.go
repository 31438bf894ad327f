// Package series makes time series of a run, for databases: the figures of its report, each second of load, and
// trials, phases and faults for annotations.
package series

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
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
	points := 0
	for _, s := range all {
		points += len(s.Points)
	}
	return fmt.Sprintf("%d series with %s", len(all), printable.Counted(points, "value"))
}
