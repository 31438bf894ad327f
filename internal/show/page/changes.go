package page

import (
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// changed is a kind of change with one treatment: its times over all trials, and when requests failed.
type changed struct {
	Treatment string       `json:"treatment"`
	Kind      string       `json:"kind"`
	Changes   int          `json:"changes"`
	Times     [][2]float64 `json:"times"`            // ms that was observed, share of changes
	Band      [][3]float64 `json:"band,omitempty"`   // share of changes, and the bounds of its time, ms
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
	var times []stats.Bounded
	var failed, seen []float64 // seen: ms of the observation that a time is known by
	bounds := stats.LatestBounds
	for i := range records {
		if r := &records[i]; r.Valid && r.Treatment == treatment && len(times) < mostObserved {
			for _, c := range r.Changes {
				if c.Kind != kind {
					continue
				}
				of.Changes++
				failed = append(failed, c.FailedMS...)
				span := c.Time()
				if span == nil {
					continue
				}
				one := span.Bounded()
				if times = append(times, one); math.IsInf(one.Before, 1) {
					continue
				}
				if seen = append(seen, one.After); c.LastOld == nil {
					seen[len(seen)-1], bounds = one.Before, stats.EarliestBounds
				}
			}
		}
	}
	slices.Sort(seen)
	for i, ms := range seen {
		of.Times = append(of.Times, [2]float64{max(leastTime, ms), float64(i+1) / float64(len(times))})
	}
	for i := 1; i < bandSteps && len(times) >= bandSteps; i++ {
		share := float64(i) / bandSteps
		if low, high, _ := bounds(times, share); !math.IsInf(high, 1) {
			of.Band = append(of.Band, [3]float64{share, max(leastTime, low), max(leastTime, high)})
		}
	}
	of.Failed = around(failed, of.Changes)
	return of
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
