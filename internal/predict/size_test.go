package predict_test

import (
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/tare-mesh/tare/internal/answer/answertest"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
)

// written is a run of an Envoy at five rates. A request costs it 0.2 ms at every rate, and it has 40 MiB. Its service has
// two replicas, and the load a sidecar of its own, whose cost does not count. (The first of two synthetic sidecars has 55 %
// of their CPU, and is divided.)
func written(t *testing.T) *compare.Run {
	t.Helper()
	s := answertest.Quickstart()
	s.RateFactor, s.Bare, s.Blocks, s.Drift = true, true, 6, 0
	s.Treatments = nil
	for _, rate := range []float64{200, 400, 800, 1600, 3200} {
		s.Treatments = append(s.Treatments, answertest.Treatment{ID: "envoy-rate" + strconv.Itoa(int(rate)), Factors: plan.Factors{"mesh": "envoy", "rate": rate},
			Truth: answertest.Truth{AppUS: 60, DataUS: 600 / 1.1, LoadUS: 20, AppMiB: 14, DataMiB: 120, MedianMS: 1}})
	}
	s.Change = func(r *result.Record) {
		var tasks []result.TaskUsage
		split := false
		for _, task := range r.Tasks {
			if task.Plane != metric.Data {
				tasks = append(tasks, task)
				continue
			}
			if split {
				continue // the other half
			}
			split = true
			for _, of := range []struct{ pod, service, component string }{{"echo-0", "echo", ""}, {"echo-1", "echo", ""}, {"load", "load", "load"}} {
				part := task
				part.Task = mesh.Task{ID: of.pod + "/sidecar", Pod: of.pod, Service: of.service, Component: of.component, Container: "sidecar", Plane: metric.Data, Role: mesh.RoleSidecar}
				part.End.CPU = part.Start.CPU + (task.End.CPU-task.Start.CPU)*2/3
				part.End.RSS, part.End.Peak = task.End.RSS*2/3, task.End.Peak*2/3
				tasks = append(tasks, part)
			}
		}
		r.Tasks = tasks
		r.Balance = &balance.Balance{Flows: []balance.Flow{{Place: balance.Place{Service: balance.LoadName, Point: balance.Sent, To: "echo"}}}}
	}
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	t.Cleanup(func() { d.Close() })
	run := must.Get(compare.Read(d, compare.Options{}))(t)
	return run
}

func TestSizeOfASidecar(t *testing.T) {
	run := written(t)
	all := must.Get(predict.Sizes(run, predict.Sizing{Rate: 1000, Headroom: 0.5}))(t)
	if len(all) != 1 || all[0].Proxy != "sidecar of echo" {
		t.Fatalf("sizes of %+v, want those of the sidecar of echo", all)
	}
	size := all[0]
	// Each of two sidecars has half of the requests, 0.4 ms of CPU for each of its own.
	for _, c := range []struct {
		what      string
		got, want float64
		within    float64
	}{
		{"CPU", size.CPU.Estimate, 0.4, 0.02}, {"memory", size.Memory.Estimate, 40, 1}, {"lowest rate", size.Curve.Axes[0].From, 100, 0}, {"highest rate", size.Curve.Axes[0].To, 1600, 0},
		{"requested CPU", size.RequestCPU, 0.6, 0.03}, {"requested memory", size.RequestMemory, 61, 3}, {"limit of memory", size.LimitMemory, 62, 6},
	} {
		if math.Abs(c.got-c.want) > c.within {
			t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
		}
	}
	if !(size.CPU.NewLow < size.CPU.Low && size.CPU.Low < 0.4 && 0.4 < size.CPU.High && size.CPU.High < size.CPU.NewHigh) {
		t.Errorf("bands %+v do not hold 0.4 cores, in their order", size.CPU)
	}
	must.Fail(t, must.Err(predict.Sizes(run, predict.Sizing{Rate: 2000})), "outside the measured range of 100 to 1600", "2000 requests/s through one sidecar")
}

// Limits of a variant are reported beside the size of the same mesh without: periods, OOM kills, and the growth of the p99.
func TestSizeHasWhatLimitsDid(t *testing.T) {
	s := answertest.Quickstart()
	s.RateFactor, s.Blocks, s.Drift = true, 6, 0
	s.Treatments = nil
	for _, name := range []string{"envoy", "envoy-100m", "envoy-16mi"} {
		for _, rate := range []float64{200, 400, 800, 1600} {
			truth := answertest.Truth{AppUS: 60, DataUS: 600 / 1.1, LoadUS: 20, AppMiB: 14, DataMiB: 120, MedianMS: 1}
			if name == "envoy-100m" {
				truth.MedianMS = 5
			}
			s.Treatments = append(s.Treatments, answertest.Treatment{ID: name + "-rate" + strconv.Itoa(int(rate)), Factors: plan.Factors{"mesh": name, "rate": rate}, Truth: truth})
		}
	}
	s.Change = func(r *result.Record) {
		start, end, reached := int64(0), int64(100), int64(90)
		for i, task := range r.Tasks {
			if task.Plane != metric.Data {
				continue
			}
			r.Tasks[i].Task = mesh.Task{ID: "echo-0/sidecar", Pod: "echo-0", Service: "echo", Container: "sidecar", Plane: metric.Data, Role: mesh.RoleSidecar}
			if r.Factors["mesh"] == "envoy-100m" {
				r.Tasks[i].Start.Periods, r.Tasks[i].Start.Reached, r.Tasks[i].End.Periods, r.Tasks[i].End.Reached = &start, &start, &end, &reached
			}
		}
		r.Balance = &balance.Balance{Flows: []balance.Flow{{Place: balance.Place{Service: balance.LoadName, Point: balance.Sent, To: "echo"}}}}
		if r.Factors["mesh"] == "envoy-16mi" {
			r.Valid, r.Error = false, "deploy envoy: the sidecar of echo-0 was OOMKilled: it needs more than its memory limit of 16 MiB"
		}
	}
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	t.Cleanup(func() { d.Close() })
	run := must.Get(compare.Read(d, compare.Options{}))(t)
	limited := func(resource, amount string) map[string]any {
		return map[string]any{"from": "envoy", "resources": map[string]any{"limits": map[string]any{resource: amount}}}
	}
	run.File.Meshes = map[string]map[string]any{"envoy-100m": limited("cpu", "100m"), "envoy-16mi": limited("memory", "16MiB")}
	all := must.Get(predict.Sizes(run, predict.Sizing{Rate: 700}))(t)
	if len(all) != 1 || len(all[0].Limited) != 2 {
		t.Fatalf("%+v, want one size with what two limits did", all)
	}
	cpu, memory := all[0].Limited[0], all[0].Limited[1]
	tasks := cpu.Periods / 100 / int64(cpu.Trials) // of a trial
	if cpu.CPU != 0.1 || cpu.At["rate"] != 800 || cpu.Trials != 6 || cpu.Reached != 90*6*tasks || cpu.OOMKilled != 0 || cpu.P99 == nil || !(*cpu.P99.Low > 1) {
		t.Errorf("limit of CPU: %+v", cpu)
	}
	if memory.Memory != 16 || memory.OOMKilled != 6 || memory.Trials != 6 || memory.Periods != 0 || memory.P99 != nil {
		t.Errorf("limit of memory: %+v", memory)
	}
}
