package compare

import (
	"math"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
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
	// These is the difference of these deployments alone, with its interval over slices. Only
	// a run of one block has it. It does not hold for other deployments.
	These *stats.Interval `json:"these_deployments,omitempty"`
}

// Noise divides the noise of the comparisons of interleaved trials.
func (run *Run) Noise() []NoiseSource {
	if !run.estimator.hasCosts() {
		return nil
	}
	return run.estimator.noiseSources(run.Plan.Treatments, run.validByTreatment(), priceOfBlocks(run))
}

// noiseSources divides the noise of the comparisons of interleaved trials.
func (x *estimator) noiseSources(treatments []plan.Treatment, byTreatment map[string][]figures.Measured, price *BlockPrice) []NoiseSource {
	var all []NoiseSource
	for _, t := range treatments {
		for _, part := range figures.SliceParts {
			if n, ok := x.noiseSource(t, part, byTreatment, price); ok {
				all = append(all, n)
			}
		}
	}
	return all
}

func (x *estimator) noiseSource(t plan.Treatment, part string, byTreatment map[string][]figures.Measured, price *BlockPrice) (n NoiseSource, ok bool) {
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
			both := rowDifferences(a.Slices[part], b.Slices[part])
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
		n.These = new(stats.MeanInterval(rows, x.confidence).Interval)
		return n, true
	}
	between := math.Sqrt(max(0, variance(blocks)-within))
	n.Deployment = &between
	if n.Price = price; price != nil && between > 0 {
		n.BestSlices = new(price.BestSlices(n.Slice*math.Sqrt(float64(n.Slices)), between))
	}
	return n, true
}

func difference(a, b figures.Measured, name string) (float64, bool) {
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
