package page

import (
	"math"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// changed is a kind of change with one treatment: the distribution of its time over all trials, and when requests failed.
type changed struct {
	Treatment string       `json:"treatment"`
	Kind      string       `json:"kind"`
	Changes   int          `json:"changes"`
	Times     [][2]float64 `json:"times"`            // ms, share of changes
	Band      [][3]float64 `json:"band,omitempty"`   // share of changes, and the interval of its time over trials, ms
	Failed    [][3]float64 `json:"failed,omitempty"` // from and to, ms after a change, and failed requests per change and ms
}

const (
	bandSteps    = 20   // of the share of changes
	failureBins  = 40   // of the time around a change
	leastTime    = 0.01 // ms, of a logarithmic axis
	mostObserved = 4000 // times of a kind with one treatment
)

// changesOf is the data of the figures of changes, in the order of kinds and treatments.
func changesOf(s Source) (all []changed) {
	records, err := s.Dir.Records()
	if err != nil {
		return nil // the report has the figures
	}
	for _, kind := range metric.ChangeNames(nil) {
		for _, t := range s.Report.Treatments {
			if c := changesWith(records, t.ID, kind); c.Changes > 0 {
				all = append(all, c)
			}
		}
	}
	return all
}

func changesWith(records []result.Record, treatment, kind string) changed {
	of := changed{Treatment: treatment, Kind: kind, Times: [][2]float64{}} // the page needs a list, also of none
	var pooled []stats.Censored
	var trials []stats.Distribution
	var failed []float64
	for i := range records {
		if r := &records[i]; r.Valid && r.Treatment == treatment && len(pooled) < mostObserved {
			var own []stats.Censored
			for _, c := range r.Changes {
				if c.Kind != kind {
					continue
				}
				of.Changes++
				failed = append(failed, c.FailedMS...)
				if span := c.Time(); span != nil {
					own = append(own, span.Censored())
				}
			}
			pooled, trials = append(pooled, own...), append(trials, stats.CensoredDistribution(own))
		}
	}
	for _, step := range stats.CensoredDistribution(pooled) {
		of.Times = append(of.Times, [2]float64{max(leastTime, step.After), step.Below})
		if !math.IsInf(step.Before, 1) {
			of.Times = append(of.Times, [2]float64{max(leastTime, step.Before), step.Below + step.Share})
		}
	}
	of.Band, of.Failed = band95(trials), around(failed, of.Changes)
	return of
}

// band95 is the interval of quantiles over trials. A quantile is left out unless three trials have it.
func band95(trials []stats.Distribution) (all [][3]float64) {
	for i := 1; i < bandSteps; i++ {
		share := float64(i) / bandSteps
		var logs []float64
		for _, d := range trials {
			if ms, known := d.Quantile(share); known {
				logs = append(logs, math.Log(max(leastTime, ms)))
			}
		}
		if mean := stats.MeanInterval(logs, 0.95); len(logs) > 2 && len(logs) == len(trials) && mean.Known() {
			all = append(all, [3]float64{share, math.Exp(*mean.Low), math.Exp(*mean.High)})
		}
	}
	return all
}

// around counts failed requests by their time around a change.
func around(failed []float64, changes int) (all [][3]float64) {
	if len(failed) == 0 {
		return nil
	}
	from, to := 0.0, 0.0
	for _, ms := range failed {
		from, to = min(from, ms), max(to, ms)
	}
	width := max(1, math.Ceil((to-from)/failureBins))
	from = math.Floor(from/width) * width
	counts := make([]int, int((to-from)/width)+1)
	for _, ms := range failed {
		counts[int((ms-from)/width)]++
	}
	for i, n := range counts {
		at := from + float64(i)*width
		all = append(all, [3]float64{at, at + width, float64(n) / width / float64(changes)})
	}
	return all
}
