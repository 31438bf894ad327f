package runner

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// machine is a meter whose machine was busy for some time.
type machine struct {
	meter.Meter
	ns int64
}

func (m *machine) Busy() (int64, error) { return m.ns, nil }

// CPU outside the run is the machine's less every task's, and tare, a task of both trials, counts once.
func TestOutside(t *testing.T) {
	task := func(id string, pid int) platform.Task { return platform.Task{Task: mesh.Task{ID: id}, PID: pid} }
	tasks := [][]platform.Task{{task("tare", 1), task("a", 2)}, {task("tare", 1), task("b", 3)}}
	look := func(tare, other int64, id string) meter.Look {
		return meter.Look{Tasks: map[string]result.Reading{"tare": {CPU: tare}, id: {CPU: other}}}
	}
	m := &machine{ns: 1000}
	o := newOutside(m)
	if _, ok := o.since([]meter.Look{look(10, 20, "a"), look(10, 30, "b")}, tasks); ok {
		t.Error("the first reading has a difference")
	}
	m.ns = 2000
	if ns, ok := o.since([]meter.Look{look(110, 220, "a"), look(110, 330, "b")}, tasks); !ok || ns != 1000-100-200-300 {
		t.Errorf("%d, %v, want 400", ns, ok)
	}
	if _, ok := o.since([]meter.Look{look(110, 220, "a"), {}}, tasks); ok {
		t.Error("a task was not read, and there is a difference")
	}
}
