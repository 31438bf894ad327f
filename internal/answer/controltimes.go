package answer

import (
	"maps"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// ControlTimes is how long a stage of the control plane took with a treatment, in ms. The control plane counts it itself, of all its
// work in the measure phase: changes of the experiment, of its background, and of others. It is a diagnosis beside the measured times.
type ControlTimes struct {
	Treatment string         `json:"treatment"`
	Stage     string         `json:"stage"`
	Count     int64          `json:"count"`   // times of all valid trials
	Mean      stats.Interval `json:"mean_ms"` // of the means of trials
	P50       *Bounds        `json:"p50_ms,omitempty"`
	P99       *Bounds        `json:"p99_ms,omitempty"`
}

// Bounds contain a quantile: it is in one bucket of a histogram.
type Bounds struct {
	FromMS float64  `json:"from_ms"`
	ToMS   *float64 `json:"to_ms,omitempty"` // absent beyond the last bucket
}

// addControlTimes adds what control planes count of their stages.
func (r *Report) addControlTimes(confidence float64) {
	for i := range r.Treatments {
		stages, by := grouped(r.Trials, r.Treatments[i].ID, func(t figures.Trial) []result.ControlTime { return t.ControlTimes },
			func(t result.ControlTime) string { return t.Stage })
		for _, stage := range stages {
			of := ControlTimes{Treatment: r.Treatments[i].ID, Stage: stage}
			var means []float64
			within := map[float64]int64{}
			for _, t := range by[stage] {
				of.Count += t.Count
				means = append(means, 1000*t.Seconds/float64(t.Count))
				for _, b := range t.Buckets {
					within[b.UpTo] += b.Count
				}
			}
			of.Mean = stats.MeanInterval(means, confidence).Interval
			for _, q := range metric.ChangeQuantiles {
				if of.Count < int64(q.From) {
					continue
				}
				if bounds := boundsOf(within, of.Count, q.Q); q.Q == 0.5 {
					of.P50 = bounds
				} else {
					of.P99 = bounds
				}
			}
			r.ControlTimes = append(r.ControlTimes, of)
		}
	}
}

// boundsOf finds the bucket with a quantile of n times. within has the times in each bucket, by its upper bound in seconds.
func boundsOf(within map[float64]int64, n int64, q float64) *Bounds {
	rank := int64(math.Ceil(q * float64(n)))
	from, seen := 0.0, int64(0)
	for _, bound := range slices.Sorted(maps.Keys(within)) {
		if seen += within[bound]; seen >= rank {
			return &Bounds{1000 * from, new(1000 * bound)}
		}
		from = bound
	}
	return &Bounds{FromMS: 1000 * from}
}
