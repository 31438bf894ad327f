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
	planes := partPlanes()
	kinds := result.SliceKinds(rows)
	idle := idlePerSecond(rows, kinds)
	costs := sliceCosts{}
	for i, s := range rows {
		if !s.Own {
			continue
		}
		for _, name := range noiseParts {
			used := 0.0
			for _, plane := range planes[name] {
				used += float64(s.CPU[plane])
				for j := i + 1; j < len(rows) && kinds[j] == result.AfterSlice; j++ { // late answers and deferred work
					used += float64(rows[j].CPU[plane]) - idle[plane]*(rows[j].End-rows[j].Begin).Seconds()
				}
			}
			cost := math.NaN()
			if s.Answered > 0 {
				cost = used / float64(s.Answered) / 1e3
			}
			costs[name] = append(costs[name], cost)
		}
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

// idlePerSecond is the CPU in idle slices, ns a second.
func idlePerSecond(rows []result.Slice, kinds []result.SliceKind) map[metric.Plane]float64 {
	sums, seconds := map[metric.Plane]float64{}, 0.0
	for i, row := range rows {
		if kinds[i] != result.IdleSlice {
			continue
		}
		seconds += (row.End - row.Begin).Seconds()
		for plane, used := range row.CPU {
			sums[plane] += float64(used)
		}
	}
	if seconds > 0 {
		for plane := range sums {
			sums[plane] /= seconds
		}
	}
	return sums
}

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
