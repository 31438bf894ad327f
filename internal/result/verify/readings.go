package verify

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// readings compares the tasks of a trial without slices with its samples. The readings at the edges of the measure phase are
// two of them, and each has the CPU of every plane since the one before it.
func (f *findings) readings(file string, r *result.Record, looks []*result.Sample) {
	planes := map[string]metric.Plane{}
	first, last := len(looks), -1
	for _, t := range r.Tasks {
		if planes[t.ID] = t.Plane; t.Missing != "" || t.Ended || t.Start.At.IsZero() || t.End.At.IsZero() {
			continue
		}
		start := t.Start
		start.CPU -= t.Reloaded
		begin, end := sampleOf(looks, t.ID, start), sampleOf(looks, t.ID, t.End)
		if begin < 0 {
			begin = beganIn(looks, t.ID, start)
		}
		if begin < 0 || end < 0 {
			f.problem(file, fmt.Sprintf("it has no readings of task %s from %s to %s with %v and %v of CPU time, as the record has", t.ID,
				t.Start.At.Format(time.RFC3339Nano), t.End.At.Format(time.RFC3339Nano), time.Duration(t.Start.CPU), time.Duration(t.End.CPU)))
			return
		}
		first, last = min(first, begin), max(last, end)
	}
	if first >= last {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(looks[first].Tasks)) {
		if _, ends := looks[last].Tasks[id]; ends && planes[id] == "" {
			f.problem(file, fmt.Sprintf("it has task %s, which the record lacks", id))
			return
		}
	}
	for i := first + 1; i <= last; i++ {
		if plane, is, want := differs(planes, looks[i-1], looks[i]); plane != "" {
			f.problem(file, fmt.Sprintf("its samples have %.6f cores of plane %s before %s, and the tasks that the record has in it %.6f",
				want, plane, looks[i].Tasks[slices.Min(slices.Collect(maps.Keys(looks[i].Tasks)))].At.Format(time.RFC3339Nano), is))
			return
		}
	}
}

// disturbed compares the tasks of a trial with faults or changes, which end tasks and begin others, with its samples.
func disturbed(f *findings, file string, r *result.Record, looks []*result.Sample) {
	planes := map[string]metric.Plane{}
	for _, t := range r.Tasks {
		if planes[t.ID] = t.Plane; t.Missing != "" {
			continue
		}
		start := t.Start
		start.CPU -= t.Reloaded
		edges := []result.Reading{start, t.End}
		if t.Ended {
			edges = edges[:1] // the last reading is that of its end
		}
		for _, edge := range edges {
			if edge.CPU > 0 && sampleOf(looks, t.ID, edge) < 0 {
				f.problem(file, fmt.Sprintf("it has no reading of task %s at %s with %v of CPU time, as the record has", t.ID, edge.At.Format(time.RFC3339Nano), time.Duration(edge.CPU)))
				return
			}
		}
	}
	for i := 1; i < len(looks); i++ {
		both := maps.Clone(planes)
		maps.DeleteFunc(both, func(id string, _ metric.Plane) bool {
			_, before := looks[i-1].Tasks[id]
			_, after := looks[i].Tasks[id]
			return !before || !after
		})
		if len(both) < len(looks[i].Tasks) {
			continue // of a task that has begun, or that the record lacks
		}
		if plane, is, want := differs(both, looks[i-1], looks[i]); plane != "" {
			f.problem(file, fmt.Sprintf("its sample %d has %.6f cores of plane %s, and the tasks that the record has in it %.6f", i+1, want, plane, is))
			return
		}
	}
}

// sampleOf is the index of the sample with a reading of a task, -1 for none.
func sampleOf(looks []*result.Sample, id string, edge result.Reading) int {
	return slices.IndexFunc(looks, func(s *result.Sample) bool {
		is, ok := s.Tasks[id]
		return ok && is.At.Equal(edge.At) && is.CPU == edge.CPU && sameCounters(is, edge)
	})
}

// beganIn is the index of the first sample with a task that began after the beginning of the measure phase, at which it had used
// nothing. It is -1 if the first sample after that instant has the task already.
func beganIn(looks []*result.Sample, id string, begin result.Reading) int {
	has := func(s *result.Sample) bool { _, ok := s.Tasks[id]; return ok }
	after := slices.IndexFunc(looks, func(s *result.Sample) bool {
		for _, r := range s.Tasks {
			if r.At.After(begin.At) {
				return true
			}
		}
		return false
	})
	if begin.CPU != 0 || after < 0 || has(looks[after]) {
		return -1
	}
	return slices.IndexFunc(looks, has)
}

// differs returns a plane whose tasks used another CPU between two samples of all tasks, in cores.
func differs(planes map[string]metric.Plane, before, after *result.Sample) (plane string, is, want float64) {
	cores := map[string]float64{}
	for id, p := range planes {
		a, ok := before.Tasks[id]
		b, ok2 := after.Tasks[id]
		if !ok || !ok2 || !b.At.After(a.At) {
			return "", 0, 0
		}
		cores[string(p)] += float64(b.CPU-a.CPU) / float64(b.At.Sub(a.At))
	}
	if len(after.Tasks) != len(planes) {
		return "", 0, 0
	}
	for _, p := range slices.Sorted(maps.Keys(after.Cores)) {
		if math.Abs(cores[p]-after.Cores[p]) > 1e-6*(1+math.Abs(after.Cores[p])) {
			return p, cores[p], after.Cores[p]
		}
	}
	return "", 0, 0
}
