package compare

import (
	"math"
	"slices"
	"time"
)

// BlockPrice is the time of a block with order interleaved, in seconds. A row has one slice of each treatment.
type BlockPrice struct {
	Block float64 `json:"block_s"` // without its rows
	Row   float64 `json:"row_s"`
}

// BestSlices is the number of rows in a block that gives the smallest variance in a given time, for the
// standard deviations of the difference of a row and between deployments. It is the optimum of a nested
// design with two stages (Kempthorne, "The Design and Analysis of Experiments", 1952; Kalibera, Jones,
// "Rigorous benchmarking in reasonable time", ISMM 2013).
func (p BlockPrice) BestSlices(row, deployment float64) float64 {
	return math.Sqrt(p.Block/p.Row) * row / deployment
}

// priceOfBlocks returns the seconds that a block and a row of the run take. Nil means that the run has no rounds.
// It is the median, because a resumed run has a gap.
func priceOfBlocks(run *Run) *BlockPrice {
	if run.Plan.Slices == nil || run.Plan.Slices.Measure == 0 {
		return nil
	}
	rounds := map[string]int{}
	for _, t := range run.Plan.Trials {
		rounds[t.ID] = t.Round
	}
	type span struct {
		start, end time.Time
		measure    float64
	}
	spans := map[int]*span{}
	for i := range run.Records {
		r := &run.Records[i]
		if rounds[r.ID] == 0 || r.Load == nil {
			continue
		}
		s := spans[rounds[r.ID]]
		if s == nil {
			s = &span{start: r.Started, end: r.Ended}
			spans[rounds[r.ID]] = s
		}
		if r.Started.Before(s.start) {
			s.start = r.Started
		}
		if r.Ended.After(s.end) {
			s.end = r.Ended
		}
		s.measure = max(s.measure, r.Load.MeasureSeconds)
	}
	var blocks, rows []float64
	for round, s := range spans {
		end := s.end
		if next := spans[round+1]; next != nil {
			end = next.start // the removal of the deployments included
		}
		blocks = append(blocks, end.Sub(s.start).Seconds()-s.measure)
		rows = append(rows, s.measure/float64(run.Plan.Slices.Measure))
	}
	if len(blocks) == 0 {
		return nil
	}
	slices.Sort(blocks)
	slices.Sort(rows)
	p := BlockPrice{Block: blocks[len(blocks)/2], Row: rows[len(rows)/2]}
	if p.Block <= 0 || p.Row <= 0 {
		return nil
	}
	return &p
}
