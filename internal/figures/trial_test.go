package figures

import (
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

var edge = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// usage is a task that used cores over ten seconds by its own readings.
func usage(id string, plane metric.Plane, cores float64, mib int64) result.TaskUsage {
	pss := mib << 19
	return result.TaskUsage{
		Task:  mesh.Task{ID: id, Plane: plane},
		Start: result.Reading{At: edge.Add(3 * time.Millisecond), CPU: 7e9, RSS: 1, Voluntary: 10, Involuntary: 5},
		End: result.Reading{At: edge.Add(10*time.Second + 3*time.Millisecond), CPU: 7e9 + int64(cores*1e10), RSS: mib << 20, Peak: (mib + 1) << 20, PSS: &pss,
			Voluntary: 2010, Involuntary: 505},
	}
}

// handRecord is 10,000 answers in 10 s; 0.6 cores of application, 1.2 of data plane, 0.2 of control plane, 0.25 of load.
func handRecord() result.Record {
	return result.Record{
		ID: "1-envoy-b1", Valid: true,
		Load: &result.Load{Loop: "open", Completed: 10000, Classes: map[string]int64{"2xx": 9990, "status": 6, "timeout": 4},
			BytesIn: 5_000_000, BytesOut: 1_000_000, WarmupSeconds: 5, MeasureSeconds: 10},
		Tasks: []result.TaskUsage{
			usage("a/app", metric.App, 0.6, 20), usage("a/sidecar", metric.Data, 0.7, 30), usage("b/sidecar", metric.Data, 0.5, 25),
			usage("istiod", metric.Control, 0.2, 100), usage("load", metric.Load, 0.25, 10), usage("tare", metric.Harness, 0.01, 40),
		},
		Node: &result.NodeUsage{CPUs: 4, Start: result.NodeReading{At: edge, Busy: 1e9}, End: result.NodeReading{At: edge.Add(10 * time.Second), Busy: 31e9}},
	}
}

func TestTrialFiguresByHand(t *testing.T) {
	r := handRecord()
	f := trialFigures(&r, false)
	for name, want := range map[string]float64{
		"rate": 1000, "error_ratio": 0.001, "bytes_per_s/in": 500_000, "bytes_per_s/out": 100_000, "node_cpu_cores": 3,
		"cpu_cores/app": 0.6, "cpu_cores/data": 1.2, "cpu_cores/control": 0.2, "cpu_cores/load": 0.25, "cpu_cores/platform": 0,
		"cpu_cores/mesh": 1.4, "cpu_cores/total": 2.0, "cpu_cores/cluster": 2.25, "cpu_cores/harness": 0.01,
		"cpu_us_per_request/data": 1200, "cpu_us_per_request/total": 2000, "cpu_cores_per_1000_rps/total": 2,
		"memory_mib/app": 20, "memory_mib/data": 55, "memory_mib/total": 175, "memory_peak_mib/data": 57, "memory_pss_mib/data": 27.5,
		"context_switches_per_request/app": 0.25, "context_switches_per_request/data": 0.5,
		"mesh_ratio/cpu": 1.4 / 0.85, "data_plane_ratio/cpu": 1.2 / 0.85, "mesh_ratio/memory": 155.0 / 30, "data_plane_ratio/memory": 55.0 / 30,
	} {
		if got, ok := f.values[name]; !ok || math.Abs(got-want) > 1e-6*math.Max(1, want) {
			t.Errorf("%s = %v (known: %v), want %v", name, got, ok, want)
		}
	}
	if len(f.warnings) != 0 {
		t.Errorf("warnings: %+v", f.warnings)
	}
	for name := range f.values {
		if _, ok := metric.Lookup(name); !ok {
			t.Errorf("%s is not in the metric table", name)
		}
	}
}

// Unknown figures are absent; known figures remain.
// Processes that a container had one after another never had their memory at the same time.
func TestPeakOfRestarted(t *testing.T) {
	r := handRecord()
	for i, peak := range []int64{30, 63, 40} { // the last runs at the end
		u := usage("b/sidecar."+string(rune('2'+i)), metric.Data, 0.1, peak-1)
		u.Pod, u.Container, u.Ended = "b", "sidecar", i < 2
		r.Tasks = append(r.Tasks, u)
	}
	r.Tasks[2].Pod, r.Tasks[2].Container, r.Tasks[2].Ended = "b", "sidecar", true
	f := trialFigures(&r, false)
	if got, want := f.values["memory_peak_mib/data"], 31.0+63; got != want {
		t.Errorf("peak of the data plane: %v MiB, want %v", got, want)
	}
}

func TestTrialFiguresUnknown(t *testing.T) {
	for _, c := range []struct {
		name          string
		change        func(*result.Record)
		known, absent []string
		warning       string
	}{
		{"an unread sidecar", func(r *result.Record) { r.Tasks[1].Missing = "no such process" },
			[]string{"cpu_cores/app", "cpu_cores/control", "memory_mib/app"},
			[]string{"cpu_cores/data", "cpu_cores/mesh", "cpu_cores/total", "cpu_us_per_request/data", "memory_mib/data", "mesh_ratio/cpu"}, "task-unread"},
		{"a counter that went back", func(r *result.Record) { r.Tasks[0].End.CPU = 1 },
			[]string{"cpu_cores/data", "memory_mib/app"}, []string{"cpu_cores/app", "cpu_cores/total"}, "task-counters"},
		{"a clock that went back", func(r *result.Record) { r.Tasks[1].End.At = edge.Add(-time.Second) },
			[]string{"cpu_cores/app", "memory_mib/data"}, []string{"cpu_cores/data", "context_switches_per_request/data"}, "task-counters"},
		{"no mesh", func(r *result.Record) { r.Tasks = append(r.Tasks[:1:1], r.Tasks[4:]...) },
			[]string{"cpu_cores/data", "cpu_cores/mesh", "cpu_cores/total", "memory_mib/data"}, nil, ""},
		{"no tasks at all", func(r *result.Record) { r.Tasks = nil },
			[]string{"rate", "node_cpu_cores"}, []string{"cpu_cores/data", "cpu_cores/total"}, "tasks-unknown"},
		{"no application", func(r *result.Record) { r.Tasks = r.Tasks[1:] },
			[]string{"cpu_cores/data"}, []string{"cpu_cores/app", "cpu_cores/total"}, ""},
		{"no load task but its own report", func(r *result.Record) {
			r.Tasks = append(r.Tasks[:4:4], r.Tasks[5])
			s := 2.5
			r.Load.CPUSeconds = &s
		}, []string{"cpu_cores/load", "cpu_cores/cluster"}, []string{"memory_mib/load"}, ""},
		{"no load report", func(r *result.Record) { r.Load = nil },
			[]string{"cpu_cores/data"}, []string{"rate", "error_ratio", "cpu_us_per_request/data"}, "load-unknown"},
		{"no answer", func(r *result.Record) {
			r.Load.Completed = 0
			r.Load.Classes = map[string]int64{"timeout": 50}
		}, []string{"rate", "error_ratio", "cpu_cores/data"}, []string{"cpu_us_per_request/data"}, "no-answers"},
		{"no memory", func(r *result.Record) { r.Tasks[0].End.RSS = 0 },
			[]string{"memory_mib/data", "cpu_cores/app"}, []string{"memory_mib/app", "memory_mib/total"}, ""},
		{"no PSS of one", func(r *result.Record) { r.Tasks[2].End.PSS = nil },
			[]string{"memory_pss_mib/app"}, []string{"memory_pss_mib/data"}, ""},
		{"no classes", func(r *result.Record) { r.Load.Classes = nil }, []string{"rate"}, []string{"error_ratio"}, ""},
		{"no bytes counted", func(r *result.Record) { r.Load.BytesIn = 0 }, []string{"bytes_per_s/out"}, []string{"bytes_per_s/in"}, ""},
		{"a node counter that went back", func(r *result.Record) { r.Node.End.Busy = 0 }, []string{"rate"}, []string{"node_cpu_cores"}, "node-counters"},
		{"a failed trial", func(r *result.Record) { r.Error = "deploy: port taken" }, nil, []string{"rate", "cpu_cores/app"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := handRecord()
			c.change(&r)
			f := trialFigures(&r, false)
			for _, name := range c.known {
				if _, ok := f.values[name]; !ok {
					t.Errorf("%s is unknown", name)
				}
			}
			for _, name := range c.absent {
				if v, ok := f.values[name]; ok {
					t.Errorf("%s = %v, and cannot be known", name, v)
				}
			}
			var codes []string
			for _, w := range f.warnings {
				codes = append(codes, w.Code)
				if w.Hint == "" {
					t.Errorf("%s names no cure", w.Code)
				}
			}
			if got := strings.Join(codes, ","); c.warning != "" && !strings.Contains(got, c.warning) || c.warning == "" && got != "" {
				t.Errorf("warnings %q, want %q", got, c.warning)
			}
		})
	}
}

// A withholding check removes only the metrics it concerns.
func TestWithheldMetricsAreUnknown(t *testing.T) {
	waypoint := TaskRole{metric.Data, "waypoint", ""}
	f := &figures{values: map[string]float64{"latency_ms/p50": 1, "service_ms/p50": 1, "cpu_cores/app": 1},
		roles: map[TaskRole]map[string]float64{waypoint: {"cpu_us_per_request": 1, "memory_mib": 1}}}
	f.withhold([]result.Warning{
		{Code: "marks", Metrics: []string{"cpu_cores"}},
		{Code: "generator-late", Withholds: true, Metrics: []string{"latency_ms", "service_ms"}},
		{Code: "readings-shifted", Withholds: true, Metrics: []string{"cpu_us_per_request"}},
	})
	if want := map[string]float64{"memory_mib": 1}; !maps.Equal(f.roles[waypoint], want) {
		t.Errorf("left of a role: %v, want %v", f.roles[waypoint], want)
	}
	if want := map[string]float64{"cpu_cores/app": 1}; !maps.Equal(f.values, want) {
		t.Errorf("left: %v, want %v", f.values, want)
	}
}
