package predict

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// Limited has the effects of a proxy's limits in the trials at one place of the axes.
type Limited struct {
	CPU       float64            `json:"cpu,omitempty"`    // limit, cores
	Memory    float64            `json:"memory,omitempty"` // limit, MiB
	At        map[string]float64 `json:"at"`               // the measured place, near to the wanted one
	Trials    int                `json:"trials"`
	OOMKilled int                `json:"oom_killed"`       // trials that failed because a sidecar was OOMKilled
	Periods   int64              `json:"periods"`          // in which proxies of the kind wanted CPU
	Reached   int64              `json:"reached"`          // of these, in which they reached the limit
	P99       *stats.Interval    `json:"p99_ms,omitempty"` // growth of the p99, ms, against trials without limits in the same blocks

	Time *stats.Interval `json:"time_ms,omitempty"`   // the percentile of the objective, ms
	Met  Met             `json:"objective,omitempty"` // empty without an objective
}

// Objective is an upper limit of a percentile of response times.
type Objective struct {
	Text       string  `json:"text"`       // as written: "p99 < 20ms"
	Percentile string  `json:"percentile"` // p99
	MS         float64 `json:"ms"`
}

// ParseObjective reads a bound such as "p99 < 20ms".
func ParseObjective(text string) (*Objective, error) {
	known := []string{"p50", "p90", "p99", "p99.9"}
	bounds, err := capacity.ParseBounds(text)
	if err != nil {
		return nil, err
	}
	percentile, ms, ok := bounds[0].TimeLimit()
	if len(bounds) > 1 || !ok || !slices.Contains(known, percentile) {
		return nil, fmt.Errorf("%.60q is not one upper limit of %s", text, strings.Join(known, ", "))
	}
	return &Objective{strings.TrimSpace(text), percentile, ms}, nil
}

// Met is the verdict on an objective, by the interval of its percentile.
type Met string

// Verdicts on an objective.
const (
	Holds     Met = "holds"     // the whole interval is below the limit
	Missed    Met = "missed"    // the whole interval is above it
	Undecided Met = "undecided" // otherwise, and with too few trials
)

// met compares the percentile of trials with the objective.
func (o *Objective) met(times []float64, confidence float64) (*stats.Interval, Met) {
	if len(times) < minBlocks {
		return nil, Undecided
	}
	i := intervalOf(times, confidence)
	switch {
	case *i.High < o.MS:
		return i, Holds
	case *i.Low >= o.MS:
		return i, Missed
	}
	return i, Undecided
}

func intervalOf(values []float64, confidence float64) *stats.Interval {
	mean, half := stats.Mean(values), stats.HalfWidth(stats.SD(values), len(values), confidence)
	low, high := mean-half, mean+half
	return &stats.Interval{Estimate: mean, Low: &low, High: &high}
}

// oomKilled is in the error of a trial whose sidecar was killed at its memory limit, on every platform.
const oomKilled = "OOMKilled"

// limitsOf returns the limits of a treatment's sidecars, and a key of the treatments that differ in limits and axes alone.
func (at place) limitsOf(run *compare.Run, name string, options map[string]string) (l experiment.Amounts, key string) {
	limits, other := run.LimitsOf(name)
	_ = l.CPU.UnmarshalScalar(limits["cpu"]) // no limit, or the file would not be valid
	_ = l.Memory.UnmarshalScalar(limits["memory"])
	factors := maps.Clone(at.factors)
	delete(factors, experiment.MeshFactor)
	return l, fmt.Sprint(factors, at.mesh, options, other)
}

type limitedTrial struct {
	block  int
	levels []float64
	ms     map[string]float64            // response times by percentile
	failed bool                          // without figures
	oom    bool                          // a sidecar was OOMKilled
	tasks  map[string][]result.TaskUsage // by kind
}

func newLimitedTrial(r *result.Record, t figures.Measured, levels []float64) limitedTrial {
	l := limitedTrial{block: t.Block, levels: levels, ms: map[string]float64{}, failed: !t.Valid, oom: strings.Contains(r.Error, oomKilled), tasks: proxyTasks(r)}
	for name, v := range t.Metrics {
		if percentile, ok := strings.CutPrefix(name, metric.Latency+"/"); ok {
			l.ms[percentile] = v
		}
	}
	return l
}

// limited compares the trials of groups with limits with the trials of g, at the measured place next to the wanted one.
// With an objective, g without limits is the first.
func (g *group) limited(kind string, with []*group, want []float64, s Sizing, confidence float64) (all []Limited) {
	if s.Objective != nil {
		with = append([]*group{g}, with...)
	}
	for _, other := range with {
		place := nearest(other.trials, want)
		l := Limited{CPU: float64(other.limits.CPU), Memory: float64(other.limits.Memory) / (1 << 20), At: map[string]float64{}}
		for i, axis := range s.axes() {
			l.At[axis] = place[i]
		}
		var grown, times []float64
		for _, t := range other.trials {
			if !slices.Equal(t.levels, place) {
				continue
			}
			l.Trials++
			if t.oom {
				l.OOMKilled++
			}
			if t.failed {
				continue
			}
			for _, task := range t.tasks[kind] {
				if task.Start.Periods != nil && task.End.Periods != nil && task.Start.Reached != nil && task.End.Reached != nil {
					l.Periods += *task.End.Periods - *task.Start.Periods
					l.Reached += *task.End.Reached - *task.Start.Reached
				}
			}
			if ms, known := t.ms[s.percentile()]; known {
				times = append(times, ms)
			}
			for _, free := range g.trials {
				p99, known := t.ms["p99"]
				without, both := free.ms["p99"]
				if known && both && other != g && free.block == t.block && slices.Equal(free.levels, place) && !free.failed {
					grown = append(grown, p99-without)
				}
			}
		}
		if len(grown) >= minBlocks {
			l.P99 = intervalOf(grown, confidence)
		}
		if s.Objective != nil {
			l.Time, l.Met = s.Objective.met(times, confidence)
			if l.OOMKilled > 0 {
				l.Met = Missed
			}
		}
		all = append(all, l)
	}
	return all
}

// percentile is the objective's percentile, empty without an objective.
func (s Sizing) percentile() string {
	if s.Objective == nil {
		return ""
	}
	return s.Objective.Percentile
}

// limitThatHolds returns the lowest CPU limit that was measured, is not below the request, and keeps the objective. Every
// higher one keeps it too. 0 means none.
func limitThatHolds(all []Limited, request float64) (limit float64) {
	byCPU := slices.SortedFunc(slices.Values(all), func(a, b Limited) int { return cmp.Compare(b.CPU, a.CPU) })
	for _, l := range byCPU {
		if l.CPU < request || l.Met != Holds {
			break
		}
		limit = l.CPU
	}
	return limit
}

// nearest returns the levels of trials that are nearest to wanted ones, by ratio. A rate below the wanted one comes last:
// there a limit does less.
func nearest(trials []limitedTrial, want []float64) (place []float64) {
	least := math.Inf(1)
	for _, t := range trials {
		var far float64
		if t.levels[0] < want[0] {
			far = 1e6 // beyond any ratio
		}
		for i, x := range t.levels {
			far += math.Abs(math.Log((x + 1) / (want[i] + 1)))
		}
		if far < least {
			least, place = far, t.levels
		}
	}
	return place
}

// limitedOnes returns the groups with limits that differ from g in them alone.
func limitedOnes(g *group, all []*group) []*group {
	return lists.Where(all, func(other *group) bool {
		return other.unlimited == g.unlimited && other.limits != (experiment.Amounts{}) && g.limits == (experiment.Amounts{}) && len(other.trials) > 0
	})
}

// hasFree reports whether a group has limits, and another has the same treatments without.
func (g *group) hasFree(all []*group) bool {
	return g.limits != (experiment.Amounts{}) && slices.ContainsFunc(all, func(other *group) bool {
		return other.unlimited == g.unlimited && other.limits == (experiment.Amounts{})
	})
}
