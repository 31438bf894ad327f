package compare

import (
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
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

// Components are the noise of one planned comparison by source, over earlier runs, relative to the
// treatment's mean.
type Components struct {
	Treatment, Baseline string
	Metric              string
	Row, Deployment     float64 // standard deviations: of the difference of a row, and between deployments
	Price               BlockPrice
	Level               float64 // of tests: Holm's first step
}

// Allocation is a number of blocks and of rows in each.
type Allocation struct{ Blocks, Rows int }

// fewestBlocks of an allocation: with fewer, the variance between deployments is hardly known.
const fewestBlocks = 6

// Best is the allocation with the narrowest interval in a number of seconds. Not ok means that the time
// is too short for six blocks of the least number of rows.
func (c Components) Best(seconds float64, least int, confidence float64) (best Allocation, ok bool) {
	narrowest := math.Inf(1)
	for _, rows := range rowsTried(least) {
		blocks := int(seconds / c.Seconds(1, rows))
		if blocks < fewestBlocks {
			break
		}
		if w := c.HalfWidth(blocks, rows, confidence); w < narrowest {
			narrowest, best, ok = w, Allocation{blocks, rows}, true
		}
	}
	return best, ok
}

// Cheapest is the allocation that shows a difference of share with 80 % power in the shortest time.
func (c Components) Cheapest(share float64, least int) (best Allocation, ok bool) {
	shortest := math.Inf(1)
	for _, rows := range rowsTried(least) {
		blocks, found := stats.BlocksFor(share/c.Spread(rows), c.Level, stats.Power)
		if blocks = max(blocks, fewestBlocks); found && c.Seconds(blocks, rows) < shortest {
			shortest, best, ok = c.Seconds(blocks, rows), Allocation{blocks, rows}, true
		}
	}
	return best, ok
}

// NoiseComponents pool the sources of noise of the planned comparisons over earlier interleaved runs with
// the same treatments. Comparisons that no run has are absent.
func NoiseComponents(p *plan.Plan, runs []*result.Dir) ([]Components, error) {
	type pool struct {
		row, deployment, df, runs float64
		tests                     int
		price                     BlockPrice
	}
	pools := map[string]*pool{}
	confidence := defaultConfidence
	for _, d := range runs {
		run, err := Read(d, Options{})
		if err != nil {
			return nil, err
		}
		confidence = run.Confidence()
		partner := partners(d.Plan(), *p)
		tests, treatments := map[string]int{}, run.Treatments()
		for _, q := range run.Compare().questions {
			for _, t := range q.Treatments {
				tests[t] = q.Tests
			}
		}
		for _, n := range run.Noise() {
			mean := 0.0
			for _, t := range treatments {
				if t.ID == n.Treatment {
					mean = t.Metrics[n.Metric].Estimate
				}
			}
			if n.Deployment == nil || n.Price == nil || !(mean > 0) {
				continue
			}
			k := pair(partner[n.Treatment], partner[n.Baseline], n.Metric)
			if pools[k] == nil {
				pools[k] = &pool{}
			}
			x, df := pools[k], float64(n.Blocks-1)
			x.row += df * float64(n.Slices) * math.Pow(n.Slice/mean, 2)
			x.deployment += df * math.Pow(*n.Deployment/mean, 2)
			x.df, x.runs = x.df+df, x.runs+1
			x.price = BlockPrice{x.price.Block + n.Price.Block, x.price.Row + n.Price.Row}
			x.tests = max(x.tests, tests[n.Treatment], 1)
		}
	}
	var all []Components
	for _, t := range p.Treatments {
		if t.Control || t.Reference {
			continue
		}
		for _, part := range figures.SliceParts {
			name := metric.Of(metric.CPUPerRequest, part)
			x := pools[pair(t.ID, t.Baseline, name)]
			if x == nil || part == "app" {
				continue
			}
			all = append(all, Components{
				Treatment: t.ID, Baseline: t.Baseline, Metric: name,
				Row: math.Sqrt(x.row / x.df), Deployment: math.Sqrt(x.deployment / x.df),
				Price: BlockPrice{x.price.Block / x.runs, x.price.Row / x.runs}, Level: (1 - confidence) / float64(x.tests),
			})
		}
	}
	return all, nil
}

// rowsTried are the numbers of rows from least on, growing by an eighth.
func rowsTried(least int) (all []int) {
	for n := least; n <= 100*least; n += max(1, n/8) {
		all = append(all, n)
	}
	return all
}

// HalfWidth is half of the expected interval, relative to the mean.
func (c Components) HalfWidth(blocks, rows int, confidence float64) float64 {
	return stats.HalfWidth(c.Spread(rows), blocks, confidence)
}

// Seconds is the time of a run.
func (c Components) Seconds(blocks, rows int) float64 {
	return float64(blocks) * (c.Price.Block + float64(rows)*c.Price.Row)
}

// Spread is the standard deviation of a block with a number of rows.
func (c Components) Spread(rows int) float64 {
	return math.Hypot(c.Deployment, c.Row/math.Sqrt(float64(rows)))
}
