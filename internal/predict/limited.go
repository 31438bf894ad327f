package predict

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// Limited is what the limits of a proxy did in the trials at one place of the axes.
type Limited struct {
	CPU       float64            `json:"cpu,omitempty"`    // limit, cores
	Memory    float64            `json:"memory,omitempty"` // limit, MiB
	At        map[string]float64 `json:"at"`               // the measured place, near to the wanted one
	Trials    int                `json:"trials"`
	OOMKilled int                `json:"oom_killed"`       // trials that failed because a sidecar was OOMKilled
	Periods   int64              `json:"periods"`          // in which proxies of the kind wanted CPU
	Reached   int64              `json:"reached"`          // of these, in which they reached the limit
	P99       *stats.Interval    `json:"p99_ms,omitempty"` // growth of the p99, ms, against trials without limits in the same blocks
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

// limitedTrial is what limits did in one trial.
type limitedTrial struct {
	block  int
	levels []float64
	p99    float64                       // ms, NaN if it is unknown
	failed bool                          // without figures
	oom    bool                          // a sidecar was OOMKilled
	tasks  map[string][]result.TaskUsage // by kind
}

func newLimitedTrial(r *result.Record, t figures.Measured, levels []float64) limitedTrial {
	l := limitedTrial{block: t.Block, levels: levels, p99: math.NaN(), failed: !t.Valid, oom: strings.Contains(r.Error, oomKilled), tasks: proxyTasks(r)}
	if p99, ok := t.Metrics[metric.Of(metric.Latency, "p99")]; ok {
		l.p99 = p99
	}
	return l
}

// limited compares the trials of groups with limits with those of g, at the measured place that is nearest to the wanted one.
func (g *group) limited(kind string, with []*group, s Sizing, confidence float64) (all []Limited) {
	want := []float64{s.Rate}
	for _, axis := range s.axes()[1:] {
		want = append(want, s.At[axis])
	}
	for _, other := range with {
		place := nearest(other.trials, want)
		l := Limited{CPU: float64(other.limits.CPU), Memory: float64(other.limits.Memory) / (1 << 20), At: map[string]float64{}}
		for i, axis := range s.axes() {
			l.At[axis] = place[i]
		}
		var grown []float64
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
			for _, free := range g.trials {
				if free.block == t.block && slices.Equal(free.levels, place) && !free.failed && !math.IsNaN(t.p99-free.p99) {
					grown = append(grown, t.p99-free.p99)
				}
			}
		}
		if len(grown) >= minBlocks {
			mean, half := stats.Mean(grown), stats.HalfWidth(stats.SD(grown), len(grown), confidence)
			low, high := mean-half, mean+half
			l.P99 = &stats.Interval{Estimate: mean, Low: &low, High: &high}
		}
		all = append(all, l)
	}
	return all
}

// nearest returns the levels of trials that are nearest to wanted ones, by ratio.
func nearest(trials []limitedTrial, want []float64) (place []float64) {
	least := math.Inf(1)
	for _, t := range trials {
		var far float64
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
func limitedOnes(g *group, all []*group) (with []*group) {
	for _, other := range all {
		if other.unlimited == g.unlimited && other.limits != (experiment.Amounts{}) && g.limits == (experiment.Amounts{}) && len(other.trials) > 0 {
			with = append(with, other)
		}
	}
	return with
}

// hasFree reports whether a group has limits, and another has the same treatments without.
func (g *group) hasFree(all []*group) bool {
	return g.limits != (experiment.Amounts{}) && slices.ContainsFunc(all, func(other *group) bool {
		return other.unlimited == g.unlimited && other.limits == (experiment.Amounts{})
	})
}
