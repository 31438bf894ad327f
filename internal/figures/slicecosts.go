package figures

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// SliceCosts are the CPU of each own slice per answered request, µs, in their order.
type SliceCosts map[string][]float64 // by part

// SliceParts are the parts whose noise is divided.
var SliceParts = []string{"data", "total", "app"}

// SpeedParts are the parts whose CPU per request shows the machine's speed. Their sum varies less than each: work moves
// between the two ends of a connection.
var SpeedParts = []string{"app", "load"}

// sliceFigures are the costs of the slices of a trial of a round. Nil means that it has none.
func sliceFigures(f *figures, t *sliced, unread error) SliceCosts {
	if unread != nil {
		message := unread.Error()
		if errors.Is(unread, fs.ErrNotExist) {
			message = fmt.Sprintf("the trial has no %s", result.SlicesFile)
		}
		f.warn("slices-unread", []string{metric.CPUPerRequest}, message, "the figures are complete; the report lacks the noise between slices")
	}
	if t.rows == nil {
		return nil
	}
	return t.costs()
}

// readRows reads the slices of a trial of a round. Nil means that it has none.
func readRows(r *result.Record, path string) ([]result.Slice, error) {
	if r.Error != "" || r.Load == nil || r.Load.Slices == nil {
		return nil, nil
	}
	return result.ReadSlices(path)
}

// ReadSliceCosts reads the slices of a trial of a round from a file. Nil means that it has none. A cost is NaN without an
// answer.
func ReadSliceCosts(r *result.Record, path string) (SliceCosts, error) {
	rows, err := readRows(r, path)
	if err != nil || rows == nil {
		return nil, err
	}
	return (&sliced{record: r, rows: rows}).costs(), nil
}

// costs of the own slices.
func (t *sliced) costs() SliceCosts {
	idle, planes, costs := idlePerSecond(t.record), partPlanes(), SliceCosts{}
	for _, name := range slices.Concat(SliceParts, SpeedParts) {
		costs[name] = sliceCostsOf(t.rows, planes[name], idle, t.guards, t.atOnce)
	}
	return costs
}

// sliceCostsOf returns the cost of the planes in each own slice. CPU above the idle rate in the slices of others is
// charged to the own slice before it, or to the first one. Of planes that work at once there is none. Each own slice has its part of
// what guards take off. So the costs add up to the trial's cost.
func sliceCostsOf(rows []result.Slice, planes []metric.Plane, idle, guards map[metric.Plane]float64, atOnce map[metric.Plane]bool) (costs []float64) {
	own := 0.0
	for _, s := range rows {
		if s.Own {
			own++
		}
	}
	var answered []int64
	early, used := 0.0, []float64{}
	for _, s := range rows {
		cpu := 0.0
		for _, plane := range planes {
			if !s.Own && atOnce[plane] {
				continue
			}
			cpu += float64(s.CPU[plane])
			if s.Own {
				cpu -= guards[plane] / own
			} else {
				cpu -= idle[plane] * (s.End - s.Begin).Seconds()
			}
		}
		switch {
		case s.Own:
			used, answered = append(used, early+cpu), append(answered, s.Answered)
			early = 0
		case len(used) == 0:
			early += cpu
		default:
			used[len(used)-1] += cpu
		}
	}
	for i, cpu := range used {
		cost := math.NaN()
		if answered[i] > 0 {
			cost = cpu / float64(answered[i]) / 1e3
		}
		costs = append(costs, cost)
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

// idlePerSecond is the idle rate of the planes of a trial of a round, ns a second. A plane with a task whose rate is
// unknown is absent.
func idlePerSecond(r *result.Record) map[metric.Plane]float64 {
	own := ownSeconds(r.Load)
	return planeSums(r.Tasks, func(t result.TaskUsage) (float64, bool) {
		outside := t.End.At.Sub(t.Start.At).Seconds() - own
		if t.IdleCPU == nil || outside <= 0 {
			return 0, false
		}
		return float64(*t.IdleCPU) / outside, true
	})
}

// ownSeconds is the length of a trial's own slices.
func ownSeconds(l *result.Load) float64 { return float64(l.Slices.Count) * l.Slices.LengthSeconds }
