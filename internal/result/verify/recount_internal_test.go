package verify

import (
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// Changes may be logged in another order than the record has them, and none may be another.
func TestOrderOfChanges(t *testing.T) {
	changes := []result.Change{{Kind: "route-changed", DueSeconds: 1, SentSeconds: 1.2}, {Kind: "route-changed", DueSeconds: 1.1, SentSeconds: 1.2}, {Kind: "policy-denied", DueSeconds: 1.1, SentSeconds: 1.2}}
	logged := slices.Clone(changes)
	slices.Reverse(logged)
	problems := func(logged []result.Change) int {
		f := &findings{}
		recount{found: f}.marks(&result.Record{ID: "001-none-b1", Changes: changes}, &timeline{changes: logged})
		return len(f.list)
	}
	if n := problems(logged); n != 0 {
		t.Errorf("%d problems of the same changes in another order", n)
	}
	logged[1].SentSeconds = 1.3
	if n := problems(logged); n != 1 {
		t.Errorf("%d problems of a change at another time, want 1", n)
	}
	if n := problems(logged[:2]); n != 1 {
		t.Errorf("%d problems of a change that is not logged, want 1", n)
	}
}

// The generator counts its CPU time in the measure phase. Readings that a busy machine made beside its edges have another.
func TestGeneratorCPUBesideTheEdges(t *testing.T) {
	begin := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		late  time.Duration // first reading after the start of a phase of 2 s, with CPU in proportion to what is left
		cpu   float64       // s, which the generator counts
		found int
	}{
		"at the edges": {0, 0.2, 0}, "another": {0, 0.05, 1}, "late": {1500 * time.Millisecond, 0.2, 0}, "late, and another": {100 * time.Millisecond, 0.05, 1},
	} {
		end := begin.Add(2 * time.Second)
		task := result.TaskUsage{Task: mesh.Task{ID: "load/load", Plane: metric.Load}, Start: result.Reading{At: begin.Add(c.late)}, End: result.Reading{At: end, CPU: int64(end.Sub(begin.Add(c.late)) / 10)}}
		f := &findings{}
		recount{found: f, local: true}.generatorCPU(&result.Record{Load: &result.Load{Start: begin, End: end, CPUSeconds: &c.cpu}, Tasks: []result.TaskUsage{task}})
		if len(f.list) != c.found {
			t.Errorf("%s: %+v", name, f.list)
		}
	}
}
