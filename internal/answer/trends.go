package answer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Trend is how a quantity of a treatment changes at the end of a soak: in its second half, per hour of load.
type Trend struct {
	Treatment string `json:"treatment"`
	Metric    string `json:"metric"` // such as memory_mib/data
	Unit      string `json:"unit"`   // of the metric
	// First and Last are the values at the start and at the end of the soak, means over deployments.
	First float64 `json:"first"`
	Last  float64 `json:"last"`
	// PerHour is the slope. With fewer than three deployments its interval is about their time series, and Within is set:
	// other deployments may differ.
	PerHour     stats.Interval `json:"per_hour"`
	Within      bool           `json:"within,omitempty"`
	Deployments int            `json:"deployments"`
	Verdict     TrendVerdict   `json:"verdict"`
}

// TrendVerdict is the result of a trend in words.
type TrendVerdict string

const (
	StillGrowing TrendVerdict = "still growing" // surely by more than [compare.VisibleGrowth] in the second half
	StillFalling TrendVerdict = "still falling"
	Growing      TrendVerdict = "growing" // surely, perhaps by less
	Falling      TrendVerdict = "falling"
	Steady       TrendVerdict = "steady" // surely by less, if at all
	NoTrendShown TrendVerdict = "no trend shown"
)

// perHour are the growth metrics of base metrics, and the factor from their unit to the base metric's per hour.
var perHour = map[string]struct {
	name   string
	factor float64
}{metric.Memory: {metric.MemoryGrowth, 60}, metric.CPUPerRequest: {metric.CPUGrowth, 1}, metric.Latency: {metric.LatencyGrowth, 1}}

// withinDeployments is the code of the warning that an interval is not over deployments.
const withinDeployments = "within-deployments"

// addTrends adds the trends of a soak with some seconds of load. With fewer than three deployments the growth metrics of a
// treatment get their intervals from the time series.
func (r *Report) addTrends(confidence, seconds float64) {
	for i := range r.Treatments {
		t := &r.Treatments[i]
		order, byMetric := grouped(r.Trials, t.ID, func(t figures.Trial) []figures.Trend { return t.Trends }, func(x figures.Trend) string { return x.Metric })
		for _, name := range order {
			x := trendOf(byMetric[name], confidence)
			x.Treatment, x.Metric, x.Unit = t.ID, name, t.Metrics[name].Unit
			x.Verdict = trendVerdict(x.PerHour, t.Metrics[name].Estimate, seconds)
			r.Trends = append(r.Trends, x)
			if x.Within {
				x.fill(t.Metrics)
			}
		}
	}
}

// grouped collects the figures of the valid trials of a treatment by a key. The keys are in the order in which they come.
func grouped[T any](trials []figures.Trial, treatment string, of func(figures.Trial) []T, key func(T) string) (order []string, all map[string][]T) {
	all = map[string][]T{}
	for _, trial := range trials {
		if trial.Treatment != treatment || !trial.Valid {
			continue
		}
		for _, x := range of(trial) {
			k := key(x)
			if all[k] == nil {
				order = append(order, k)
			}
			all[k] = append(all[k], x)
		}
	}
	return order, all
}

// trendOf is the trend over deployments: a mean with its interval, or of one or two the intervals of their time series.
func trendOf(all []figures.Trend, confidence float64) Trend {
	x := Trend{Deployments: len(all)}
	n := float64(len(all))
	var slopes []float64
	var halves float64
	known := true
	for _, one := range all {
		slopes = append(slopes, one.PerHour.Estimate)
		x.First += one.Points[0][1] / n
		x.Last += one.Points[len(one.Points)-1][1] / n
		half, ok := one.PerHour.HalfWidth()
		halves, known = halves+half*half, known && ok
	}
	if len(all) >= stats.MinN {
		x.PerHour = stats.MeanInterval(slopes, confidence).Interval
		return x
	}
	x.Within, x.PerHour.Estimate = true, stats.Mean(slopes)
	if known {
		half := math.Sqrt(halves) / n
		low, high := x.PerHour.Estimate-half, x.PerHour.Estimate+half
		x.PerHour.Low, x.PerHour.High = &low, &high
	}
	return x
}

// fill gives the growth metrics of a treatment the interval of the trend.
func (x *Trend) fill(of map[string]compare.Estimate) {
	base := metric.Base(x.Metric)
	part, _ := metric.PartOf(base, x.Metric)
	scaled := func(name string, factor float64) {
		e, ok := of[metric.Of(name, part)]
		if !ok || !x.PerHour.Known() {
			return
		}
		low, high := *x.PerHour.Low*factor, *x.PerHour.High*factor
		e.Low, e.High = &low, &high
		e.Warnings = append(e.Warnings, figures.Warning{Code: withinDeployments, Message: "the interval is about the time series of these deployments: others may differ"})
		of[metric.Of(name, part)] = e
	}
	g := perHour[base]
	scaled(g.name, 1/g.factor)
	if minute, request := of[metric.Of(metric.MemoryGrowth, part)].Estimate, of[metric.Of(metric.MemoryGrowthPerRequest, part)].Estimate; base == metric.Memory && minute != 0 {
		scaled(metric.MemoryGrowthPerRequest, request/minute/60)
	}
}

// trendVerdict judges the change in the second half of a soak of some seconds against a level.
func trendVerdict(perHour stats.Interval, level, seconds float64) TrendVerdict {
	half, visible := seconds/3600/2, compare.VisibleGrowth*math.Abs(level)
	switch {
	case !perHour.Known():
		if perHour.Estimate == 0 {
			return Steady // the same at every time
		}
		return NoTrendShown
	case *perHour.Low*half > visible:
		return StillGrowing
	case *perHour.High*half < -visible:
		return StillFalling
	case *perHour.Low > 0:
		return Growing
	case *perHour.High < 0:
		return Falling
	case *perHour.Low*half >= -visible && *perHour.High*half <= visible:
		return Steady
	}
	return NoTrendShown
}

// MemoryGrows is the code of the warning that memory was still growing at the end of the measure phase.
const MemoryGrows = compare.MemoryGrows

// markGrowth marks figures of memory that was surely growing at the end of the measure phase, and their comparisons. The
// phase has some seconds of load.
func (r *Report) markGrowth(seconds float64) {
	compare.MarkGrowth(r.Treatments, seconds)
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		for _, t := range r.Treatments {
			if _, w, ok := t.Growing(c.Metric); ok && (t.ID == c.Treatment || t.ID == c.Baseline) {
				c.Warnings = append(slices.Clip(c.Warnings), w)
				break
			}
		}
	}
}

// GrowingApart is the difference in growth of a comparison of memory of which a side was still growing, MiB a minute, or nil.
func (r *Report) GrowingApart(c compare.Comparison) *stats.Interval {
	if !slices.ContainsFunc(c.Warnings, func(w figures.Warning) bool { return w.Code == MemoryGrows }) {
		return nil
	}
	g, _ := r.Find(c.Treatment, compare.GrowthOf(c.Metric))
	return g.Difference
}

// memoryGrows is the warning of the report about the planes of treatments with a mark of [Report.markGrowth].
func memoryGrows(treatments []compare.Treatment) []figures.Warning {
	var grown, about []string
	for i := range treatments {
		t := &treatments[i]
		for _, p := range metric.Parts() {
			name := metric.Of(metric.Memory, p.Name)
			if t.Control || len(p.Planes) > 1 {
				continue
			}
			for _, w := range t.Metrics[name].Warnings {
				if w.Code == MemoryGrows {
					grown = append(grown, fmt.Sprintf("%s of %s %s", p.Title, t.ID, strings.TrimPrefix(w.Message, "still growing at the end ")))
					about = append(about, name)
				}
			}
		}
	}
	if grown == nil {
		return nil
	}
	return []figures.Warning{{Code: MemoryGrows, Metrics: about,
		Message: "memory was still growing at the end: " + printable.Listed(grown, 3),
		Hint:    "run longer, with `phases.soak`, to see whether it levels off, or search for a leak"}}
}
