package figures

import (
	"fmt"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// series is a quantity row by row, NaN if it is unknown.
type series []float64

// reduce makes one figure of a series. It is not ok if nothing is known.
type reduce func(series) (float64, bool)

// sampledResource is a quantity of sampled rows.
type sampledResource struct {
	name       string
	scale      float64
	of         func(result.SampledRow) []*float64
	perRequest []perRequest
}

var sampledResources = []sampledResource{
	{metric.CPUCores, 1, func(r result.SampledRow) []*float64 { return r.Cores }, []perRequest{{metric.CPUPerRequest, 1e6}, {metric.CPUPer1000, 1000}}},
	{metric.Memory, 1.0 / mib, func(r result.SampledRow) []*float64 { return r.Memory }, nil},
}

// sampledMetrics rest on sampled figures.
var sampledMetrics = metric.Sampled()

// sampled is the state of computing the metrics of sampled figures.
type sampled struct {
	f *figures
	*result.Sampled
	rows    []result.SampledRow // with repeats filled in
	load    *result.Load
	seconds float64 // of the load
	reduce  reduce
}

// sampledFigures computes the metrics from a source's samples. The load's seconds
// and requests convert cores to a cost per request.
func sampledFigures(f *figures, r *result.Record, seconds float64, published bool) {
	s := sampled{f: f, Sampled: r.Sampled, rows: r.Sampled.Expanded(), load: r.Load, seconds: seconds, reduce: publishedFilter}
	if !published {
		rows := s.readings(r)
		s.reduce = func(v series) (float64, bool) { return meanOf(v, rows) }
	}
	partly := map[metric.Plane]bool{}
	for _, p := range s.Unknown {
		partly[p] = true
	}
	for _, res := range sampledResources {
		planes, reduced := map[metric.Plane]series{}, map[metric.Plane]float64{}
		for _, p := range metric.Planes() {
			v := s.sum(res, func(t mesh.Task) bool { return t.Plane == p })
			if v == nil || partly[p] {
				continue
			}
			planes[p] = v
			if x, ok := s.reduce(v); ok {
				reduced[p] = x
			}
		}
		for _, p := range metric.Parts() {
			if x, ok := s.part(p, planes); ok {
				s.set(f.values, res, p.Name, x)
			}
		}
		ratios(f, res.name, reduced)
		s.roles(res)
	}
	s.nodes()
}

// sum adds up the selected tasks, row by row. It is nil if there are none.
func (s *sampled) sum(res sampledResource, want func(mesh.Task) bool) series {
	var tasks []int
	for i, t := range s.Tasks {
		if want(t) {
			tasks = append(tasks, i)
		}
	}
	if tasks == nil {
		return nil
	}
	v := make(series, len(s.rows))
	for i, row := range s.rows {
		cells := res.of(row)
		for _, t := range tasks {
			if t >= len(cells) || cells[t] == nil {
				v[i] = math.NaN()
				break
			}
			v[i] += *cells[t] * res.scale
		}
	}
	return v
}

// part reduces the sum of a part's planes. It is not ok if one of them is unknown.
func (s *sampled) part(p metric.Part, planes map[metric.Plane]series) (float64, bool) {
	total := make(series, len(s.rows))
	for _, plane := range p.Planes {
		v, ok := planes[plane]
		if !ok && plane == metric.Node && len(p.Planes) > 1 && !slices.Contains(s.Unknown, plane) {
			continue // a source of pods has no figures of nodes: the sum is of all that it has
		}
		if !ok {
			return 0, false
		}
		for i := range total {
			total[i] += v[i]
		}
	}
	return s.reduce(total)
}

// readings are the rows of the measure phase with a new reading. The Metrics API
// repeats its last reading until it has a new one. A repeated row is not a new
// observation. A reading has the time of its first row.
func (s *sampled) readings(r *result.Record) []int {
	var from, to = s.rows[0].At, s.rows[len(s.rows)-1].At
	for _, p := range r.Phases {
		if p.Name == "measure" {
			from, to = p.Start, p.End
		}
	}
	var fresh []int
	inside := 0
	for i, row := range s.rows {
		if row.At.Before(from) || row.At.After(to) {
			continue
		}
		inside++
		if !row.Repeat {
			fresh = append(fresh, i)
		}
	}
	if len(fresh) < inside {
		s.f.warn("repeated-readings", sampledMetrics, fmt.Sprintf("%d of the %d samples of the measure phase are new readings, the others repeat one", len(fresh), inside),
			"the refresh interval of the source is longer than the sampling interval; repeats are not counted")
	}
	if len(fresh) < 3 {
		s.f.warn("few-readings", sampledMetrics, fmt.Sprintf("the trial has %s", printable.Counted(len(fresh), "reading")), "measure longer")
	}
	return fresh
}

// meanOf averages the rows in which the series is known.
func meanOf(v series, rows []int) (float64, bool) {
	total, n := 0.0, 0.0
	for _, i := range rows {
		if !math.IsNaN(v[i]) {
			total, n = total+v[i], n+1
		}
	}
	return total / n, n > 0
}

// publishedFilter computes a mean as the published results did. It drops samples not above
// the mean if at least half remain. Then it drops samples further than one population standard
// deviation from the mean of what remains. Samples count as often as they were
// repeated, and none before the part was first there.
func publishedFilter(v series) (float64, bool) {
	var all series
	for _, x := range v {
		if !math.IsNaN(x) && (len(all) > 0 || x != 0) {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		for _, x := range v {
			if x == 0 {
				return 0, true // never anything but nothing
			}
		}
		return 0, false
	}
	kept := all
	if above := keep(all, func(x, mean, _ float64) bool { return x > mean }); 2*len(above) >= len(all) {
		kept = above
	}
	kept = keep(kept, func(x, mean, sd float64) bool { return math.Abs(x-mean) <= sd })
	if len(kept) == 0 {
		return all[0], true // rounding put equal samples beyond a deviation of nothing
	}
	mean, _ := moments(kept)
	return mean, true
}

func keep(v series, want func(x, mean, sd float64) bool) series {
	mean, sd := moments(v)
	var kept series
	for _, x := range v {
		if want(x, mean, sd) {
			kept = append(kept, x)
		}
	}
	return kept
}

// moments are the mean and the population standard deviation.
func moments(v series) (mean, sd float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sd += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, math.Sqrt(sd)
}

// nodes adds up the machines, where the source names them.
func (s *sampled) nodes() {
	if len(s.Nodes) == 0 {
		return
	}
	v := make(series, len(s.rows))
	for i, row := range s.rows {
		for k := range s.Nodes {
			if k >= len(row.NodeCores) || row.NodeCores[k] == nil {
				v[i] = math.NaN()
				break
			}
			v[i] += *row.NodeCores[k]
		}
	}
	if x, ok := s.reduce(v); ok {
		s.f.set(metric.NodeCPU, x)
		s.f.warn("node-of-pods", []string{metric.NodeCPU}, "the source's figure of a machine is the sum of its pods, without the kernel and processes outside pods", "")
	}
}

func (s *sampled) set(to map[string]float64, res sampledResource, part string, v float64) {
	to[res.name+"/"+part] = v
	if s.load == nil || s.load.Completed <= 0 || s.seconds <= 0 {
		return
	}
	for _, per := range res.perRequest {
		to[per.name+"/"+part] = v * s.seconds * per.scale / float64(s.load.Completed)
	}
}
