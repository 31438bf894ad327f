package analysis

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// NoiseSource is the noise of one difference of interleaved trials, by its source. Standard
// deviations are of the difference in one block.
type NoiseSource struct {
	Treatment string `json:"treatment"`
	Baseline  string `json:"baseline"`
	Metric    string `json:"metric"`
	Unit      string `json:"unit"`
	Blocks    int    `json:"blocks"`
	Slices    int    `json:"slices"` // of each treatment in a block
	// Slice is the standard deviation because of the finite number of slices. Longer blocks reduce it.
	Slice float64 `json:"slice"`
	// Deployment is that between deployments, absent with fewer than two blocks. Only more blocks
	// reduce the interval that it causes.
	Deployment *float64 `json:"deployment,omitempty"`
	// Price is the cost of a block of this run.
	Price *BlockPrice `json:"price,omitempty"`
	// BestSlices is the number of slices of each treatment in a block that narrows the interval most in a given
	// time. Absent if a source has no noise, or without a price.
	BestSlices *float64 `json:"best_slices,omitempty"`
	// These is the difference of these deployments alone, with its interval over slices. It is of
	// a run of one block. It is no statement about other deployments.
	These *stats.Interval `json:"these_deployments,omitempty"`
}

// noiseParts are the parts whose noise is divided.
var noiseParts = []string{"data", "total", "app"}

// sliceCosts are the CPU of each own slice per answered request, µs, in their order.
type sliceCosts map[string][]float64 // by part

// sliceFigures reads the slices of a trial of a round. Nil means that it has none.
func sliceFigures(f *figures, r *result.Record, path string) sliceCosts {
	if r.Error != "" || r.Load == nil || r.Load.Slices == nil {
		return nil
	}
	rows, err := result.ReadSlices(path)
	if err != nil {
		message := err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			message = fmt.Sprintf("the trial has no %s", result.SlicesFile)
		}
		f.warn("slices-unread", []string{metric.CPUPerRequest}, message, "the figures are complete; the report lacks the noise between slices")
		return nil
	}
	idle, planes, costs := idlePerSecond(r), partPlanes(), sliceCosts{}
	for _, name := range noiseParts {
		costs[name] = sliceCostsOf(rows, planes[name], idle)
	}
	return costs
}

// sliceCostsOf are the costs of planes. The CPU beyond the idle rate in the slices of others belongs to the own slice
// before, and to the first one before that: the costs add up to that of the trial.
func sliceCostsOf(rows []result.Slice, planes []metric.Plane, idle map[metric.Plane]float64) (costs []float64) {
	var answered []int64
	early, used := 0.0, []float64{}
	for _, s := range rows {
		cpu := 0.0
		for _, plane := range planes {
			cpu += float64(s.CPU[plane])
			if !s.Own {
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

func partPlanes() map[string][]metric.Plane {
	planes := map[string][]metric.Plane{}
	for _, p := range metric.Parts() {
		planes[p.Name] = p.Planes
	}
	return planes
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

// noiseSources divides the noise of the comparisons of interleaved trials.
func (x *estimator) noiseSources(treatments []plan.Treatment, byTreatment map[string][]Trial, price *BlockPrice) []NoiseSource {
	var all []NoiseSource
	for _, t := range treatments {
		for _, part := range noiseParts {
			if n, ok := x.noiseSource(t, part, byTreatment, price); ok {
				all = append(all, n)
			}
		}
	}
	return all
}

func (x *estimator) noiseSource(t plan.Treatment, part string, byTreatment map[string][]Trial, price *BlockPrice) (n NoiseSource, ok bool) {
	name := metric.Of(metric.CPUPerRequest, part)
	m, _ := metric.Lookup(name)
	n = NoiseSource{Treatment: t.ID, Baseline: t.Baseline, Metric: name, Unit: m.Unit}
	var blocks, variances []float64
	var rows []float64
	for _, a := range byTreatment[t.ID] {
		for _, b := range byTreatment[t.Baseline] {
			if a.Block != b.Block {
				continue
			}
			// A row has one slice of each: what changes slowly cancels.
			both := rowDifferences(a.slices[part], b.slices[part])
			d, known := difference(a, b, name)
			if len(both) < 2 || !known {
				continue
			}
			rows = both
			blocks, n.Slices = append(blocks, d), len(rows)
			variances = append(variances, variance(rows)/float64(len(rows)))
		}
	}
	if n.Blocks = len(blocks); n.Blocks == 0 {
		return n, false
	}
	within := stats.Mean(variances)
	if n.Slice = math.Sqrt(within); n.Slice == 0 {
		return n, false // both have no such tasks
	}
	if n.Blocks == 1 {
		these := stats.MeanInterval(rows, x.confidence).Interval
		n.These = &these
		return n, true
	}
	between := math.Sqrt(max(0, variance(blocks)-within))
	n.Deployment = &between
	if n.Price = price; price != nil && between > 0 {
		best := price.BestSlices(n.Slice*math.Sqrt(float64(n.Slices)), between)
		n.BestSlices = &best
	}
	return n, true
}

func difference(a, b Trial, name string) (float64, bool) {
	x, ok1 := a.Metrics[name]
	y, ok2 := b.Metrics[name]
	return x - y, ok1 && ok2
}

// rowDifferences are the differences of slices of the same row, where both are known.
func rowDifferences(a, b []float64) (rows []float64) {
	for i := range min(len(a), len(b)) {
		if d := a[i] - b[i]; !math.IsNaN(d) {
			rows = append(rows, d)
		}
	}
	return rows
}

func variance(x []float64) float64 { return math.Pow(stats.SD(x), 2) }

// SliceCosts are the CPU of each own slice of an interleaved trial per answered request, µs, in their
// order. A cost is NaN without an answer. Parts are data, app and total.
func (t Trial) SliceCosts(part string) []float64 { return t.slices[part] }
