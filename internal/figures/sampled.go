package figures

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// series is a quantity row by row, NaN if it is unknown.
type series []float64

// reduce makes one figure of a series. It is not ok if nothing is known.
type reduce func(series) (float64, bool)

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
	for _, res := range sampledResources {
		planes, reduced := map[metric.Plane]series{}, map[metric.Plane]float64{}
		for _, p := range metric.Planes() {
			v := s.sum(res, func(t mesh.Task) bool { return t.Plane == p })
			if v == nil || slices.Contains(s.Unknown, p) {
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
		return 0, slices.Contains(v, 0) // never anything but nothing
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
	return lists.Where(v, func(x float64) bool { return want(x, mean, sd) })
}

// moments are the mean and the population standard deviation.
func moments(v series) (mean, sd float64) {
	mean = lists.Sum(v, func(x float64) float64 { return x / float64(len(v)) })
	for _, x := range v {
		d := x - mean
		sd += d * d / float64(len(v))
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

// publishedQuantiles are the last lines of wrk2's spectrum up to 50, 90 and 99 %.
// wrk2 prints no line at 99 %, so a P99 published from it is the line at
// 98.90625 %, and has that name here.
var publishedQuantiles = []struct {
	part string
	q    float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p98.9", 0.9890625}}

// publishedLatency is the mean over generators of each one's quantile, without
// values beyond one population standard deviation. It is published so, although a
// mean of the parts' quantiles is not a quantile of the whole.
func publishedLatency(f *figures, l *result.Load) {
	for _, p := range publishedQuantiles {
		podMean(f, l, p.part, func(d result.Latency) (float64, bool) { return spectrumAt(d, p.q) })
	}
	if _, ok := f.values[metric.Latency+"/p98.9"]; ok {
		f.warn("p99-is-p98.9", []string{metric.Latency + "/p98.9"}, "the source's P99 is the 98.90625 % line of wrk2's spectrum, which has no line at 99 %",
			"the other methods have the quantile itself, as "+metric.Latency+"/p99")
	}
	if l.Generator != "oha" {
		return
	}
	for _, q := range quantiles { // by their names, 99 % among them
		podMean(f, l, q.part, func(d result.Latency) (float64, bool) { return published(d, q.q) })
	}
}

// podMean sets the trimmed mean over generators, or nothing if one of them lacks it.
func podMean(f *figures, l *result.Load, part string, of func(result.Latency) (float64, bool)) {
	var pods series
	for _, d := range l.Published {
		v, ok := of(d)
		if !ok || d.Of != "response" {
			return
		}
		pods = append(pods, v)
	}
	if len(pods) == 0 {
		return
	}
	kept := keep(pods, func(x, mean, sd float64) bool { return math.Abs(x-mean) <= sd })
	if len(kept) == 0 {
		kept = pods
	}
	mean, _ := moments(kept)
	f.set(metric.Latency+"/"+part, mean)
}

func spectrumAt(d result.Latency, q float64) (float64, bool) {
	total := lists.Sum(d.Buckets, func(b result.Bucket) int64 { return b.Count })
	// A dozen equal steps up to the slowest request are too coarse.
	if total == 0 || total != d.Count || len(d.Buckets) <= 24 {
		return 0, false
	}
	need := int64(math.Ceil(q*float64(total) - 1e-9))
	seen := int64(0)
	for _, b := range d.Buckets {
		if seen += b.Count; seen >= need {
			return b.HighMS, true
		}
	}
	return 0, false
}

// wordsOnly takes latencies from distributions that were published without a
// log. It reports whether there were any.
func wordsOnly(f *figures, l *result.Load) bool {
	any := false
	for _, k := range []struct{ of, base string }{{"response", metric.Latency}, {"service", metric.ServiceTime}} {
		ds := lists.Where(l.Published, func(d result.Latency) bool { return d.Of == k.of })
		if len(ds) > 0 {
			any = true
			oneDistribution(f, k.base, ds)
		}
	}
	return any
}

// oneDistribution takes the quantiles of one generator. Those of several do not
// add up to one distribution, and are withheld.
func oneDistribution(f *figures, base string, ds []result.Latency) {
	worst := 0.0
	for _, d := range ds {
		if d.MaxMS != nil {
			worst = math.Max(worst, *d.MaxMS)
		}
	}
	if worst > 0 {
		f.set(base+"/max", worst)
	}
	if len(ds) > 1 {
		f.warn("quantiles-apart", []string{base}, fmt.Sprintf("%d generators published quantiles and no counts: they cannot be pooled", len(ds)),
			"keep the generators' histograms, or run one generator")
		return
	}
	if ds[0].MeanMS != nil {
		f.set(base+"/mean", *ds[0].MeanMS)
	}
	for _, q := range quantiles {
		if v, ok := published(ds[0], q.q); ok {
			f.set(base+"/"+q.part, v)
		}
	}
}

// published is a quantile as its source printed it.
func published(d result.Latency, q float64) (float64, bool) {
	p, ok := lists.First(d.Quantiles, func(p result.Quantile) bool { return math.Abs(p.Q-q) < 1e-9 })
	return p.MS, ok
}

// SliceCosts are the CPU of each own slice per answered request, µs, in their order.
type SliceCosts map[string][]float64 // by part

// SliceParts are the parts with a cost of each slice.
var SliceParts = []string{"data", "total", "app"}

// SpeedParts are the parts whose CPU per request shows the machine's speed. Their sum varies less than each: work moves
// between the two ends of a connection.
var SpeedParts = []string{"app", "load"}

// sliceFigures are the costs of the slices of a trial of a round. Nil means that it has none.
func sliceFigures(f *figures, t *sliced, unread error) SliceCosts {
	if unread != nil {
		message := unread.Error()
		if errors.Is(unread, fs.ErrNotExist) {
			message = fmt.Sprintf("the trial has no %s", result.SlicesFile)
		}
		f.warn("slices-unread", []string{metric.CPUPerRequest}, message, "the figures are complete; the report lacks the cost of each slice")
	}
	if t.rows == nil {
		return nil
	}
	return t.costs()
}

// readRows reads the slices of a trial of a round. Nil means that it has none.
func readRows(r *result.Record, path string) ([]result.Slice, error) {
	if !divides(r) {
		return nil, nil
	}
	return result.ReadSlices(path)
}

// divides reports whether the figures of a trial need its slices.
func divides(r *result.Record) bool { return r.Error == "" && r.Load != nil && r.Load.Slices != nil }

// ReadSliceCosts reads the slices of a trial of a round from a file. Nil means that it has none. A cost is NaN without an
// answer.
func ReadSliceCosts(r *result.Record, path string) (SliceCosts, error) {
	rows, err := readRows(r, path)
	if err != nil || rows == nil {
		return nil, err
	}
	return (&sliced{record: r, rows: rows}).costs(), nil
}

func (t *sliced) costs() SliceCosts {
	idle, costs, names := idlePerSecond(t.record), SliceCosts{}, slices.Concat(SliceParts, SpeedParts)
	for _, p := range metric.Parts() {
		if slices.Contains(names, p.Name) {
			costs[p.Name] = sliceCostsOf(t.rows, p.Planes, idle, t.guards, t.atOnce)
		}
	}
	return costs
}

// sliceCostsOf returns the cost of the planes in each own slice. CPU above the idle rate in the slices of others is
// charged to the own slice before it, or to the first one. Of planes that work at once there is none. Each own slice has its part of
// what guards take off. So the costs add up to the trial's cost.
func sliceCostsOf(rows []result.Slice, planes []metric.Plane, idle, guards map[metric.Plane]float64, atOnce map[metric.Plane]bool) (costs []float64) {
	own := float64(lists.Count(rows, func(s result.Slice) bool { return s.Own }))
	var answered []int64
	early, used := 0.0, []float64{}
	for _, s := range rows {
		cpu := 0.0
		for _, plane := range planes {
			if !s.Own && atOnce[plane] {
				continue
			}
			cpu += float64(s.CPU[plane])
			if s.Own {
				cpu -= guards[plane] / own
			} else {
				cpu -= idle[plane] * (s.End - s.Begin).Seconds()
			}
		}
		switch {
		case s.Own:
			used, answered = append(used, early+cpu), append(answered, s.Answered)
			early = 0
		case len(used) == 0:
			early += cpu
		default:
			used[len(used)-1] += cpu
		}
	}
	for i, cpu := range used {
		cost := math.NaN()
		if answered[i] > 0 {
			cost = cpu / float64(answered[i]) / 1e3
		}
		costs = append(costs, cost)
	}
	return costs
}

// idlePerSecond is the idle rate of the planes of a trial of a round, ns a second. A plane with a task whose rate is
// unknown is absent.
func idlePerSecond(r *result.Record) map[metric.Plane]float64 {
	own := ownSeconds(r.Load)
	return planeSums(r.Tasks, func(t result.TaskUsage) (float64, bool) {
		outside := t.End.At.Sub(t.Start.At).Seconds() - own
		if t.IdleCPU == nil || outside <= 0 {
			return 0, false
		}
		return float64(*t.IdleCPU) / outside, true
	})
}

// ownSeconds is the length of a trial's own slices.
func ownSeconds(l *result.Load) float64 { return float64(l.Slices.Count) * l.Slices.LengthSeconds }
