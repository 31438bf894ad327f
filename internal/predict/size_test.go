package predict_test

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// written is a run of an Envoy at five rates. A request costs it 0.2 ms at every rate, and it has 40 MiB. Its service has
// two replicas, and the load a sidecar of its own, whose cost does not count. (The first of two synthetic sidecars has 55 %
// of their CPU, and is divided.)
func written(t *testing.T) *compare.Run {
	t.Helper()
	return overRates(t, "envoy", func(r *result.Record, task result.TaskUsage) (all []result.TaskUsage) {
		r.Balance = &balance.Balance{Flows: []balance.Flow{{Place: balance.Place{Service: balance.LoadName, Point: balance.Sent, To: "echo"}}}}
		for _, of := range []struct{ pod, service, component string }{{"echo-0", "echo", ""}, {"echo-1", "echo", ""}, {"load", "load", "load"}} {
			part := task
			part.Task = mesh.Task{ID: of.pod + "/sidecar", Pod: of.pod, Service: of.service, Component: of.component, Container: "sidecar", Plane: metric.Data, Role: mesh.RoleSidecar}
			part.End.CPU = part.Start.CPU + (task.End.CPU-task.Start.CPU)*2/3
			part.End.RSS, part.End.Peak = task.End.RSS*2/3, task.End.Peak*2/3
			all = append(all, part)
		}
		return all
	})
}

// overRates is a run of a mesh at five rates, whose proxies are what of makes of the first of two synthetic sidecars.
func overRates(t *testing.T, name string, of func(*result.Record, result.TaskUsage) []result.TaskUsage) *compare.Run {
	t.Helper()
	return overLevels(t, name, "rate", []float64{200, 400, 800, 1600, 3200}, of)
}

// overLevels is a run of a mesh at levels of a factor, otherwise at 400 requests/s.
func overLevels(t *testing.T, name, factor string, levels []float64, of func(*result.Record, result.TaskUsage) []result.TaskUsage) *compare.Run {
	t.Helper()
	s := answertest.Quickstart()
	s.RateFactor, s.Bare, s.Blocks, s.Drift = true, true, 6, 0
	s.Treatments = nil
	for _, level := range levels {
		s.Treatments = append(s.Treatments, answertest.Treatment{ID: name + "-" + factor + strconv.Itoa(int(level)), Factors: plan.Factors{"mesh": name, "rate": 400.0},
			Truth: answertest.Truth{AppUS: 60, DataUS: 600 / 1.1, LoadUS: 20, AppMiB: 14, DataMiB: 120, MedianMS: 1}})
		s.Treatments[len(s.Treatments)-1].Factors[factor] = level
	}
	s.Change = func(r *result.Record) {
		var tasks []result.TaskUsage
		split := false
		for _, task := range r.Tasks {
			switch {
			case task.Plane != metric.Data:
				tasks = append(tasks, task)
			case !split: // the other half is left out
				split = true
				tasks = append(tasks, of(r, task)...)
			}
		}
		r.Tasks = tasks
	}
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	t.Cleanup(func() { d.Close() })
	return must.Get(compare.Read(d, compare.Options{}))(t)
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

// A leak that grows with the rate is marked at the rate where it grows fastest, in sizes and forecasts, and steady memory is not.
func TestSizesWhileMemoryGrows(t *testing.T) {
	leaky := func(perRequest float64) *compare.Run { // MiB
		return overRates(t, "envoy", func(r *result.Record, task result.TaskUsage) []result.TaskUsage {
			r.Balance = &balance.Balance{Flows: []balance.Flow{{Place: balance.Place{Service: balance.LoadName, Point: balance.Sent, To: "echo"}}}}
			task.Task = mesh.Task{ID: "echo-0/sidecar", Pod: "echo-0", Service: "echo", Container: "sidecar", Plane: metric.Data, Role: mesh.RoleSidecar}
			perSecond := perRequest * float64(r.Load.Completed) / r.Load.End.Sub(r.Load.Start).Seconds() * (1 + 0.01*float64(r.Block%3))
			for s := range 9 {
				task.Memory = append(task.Memory, result.MemoryReading{Seconds: float64(s), RSS: int64(40+perSecond*float64(s)) << 20})
			}
			task.End.RSS = task.Memory[8].RSS
			task.End.Peak = task.End.RSS
			return []result.TaskUsage{task}
		})
	}
	run := leaky(0.01)
	g := must.Get(predict.Sizes(run, predict.Sizing{Rate: 1000}))(t)[0].Growing
	if want := 0.01 * 3200 * 60; g == nil || g.Rate != 3200 || math.Abs(g.PerMinute.Estimate/want-1) > 0.05 {
		t.Errorf("growth %+v, want %v MiB a minute at 3200 requests/s", g, want)
	}
	costs := must.Get(predict.CostsOf([]predict.Source{{Dir: "runs/x", Run: run}}))(t)
	graph := predict.Graph{Topology: app.Topology{Name: "one", Entry: "front", Services: []app.Service{{Name: "front"}}}}
	if f := must.Get(predict.Forecasts(costs, graph, map[string]float64{"front": 500}, nil))(t)[0]; f.Growing == nil || f.Growing.Rate != 3200 {
		t.Errorf("the forecast has a growth of %+v, want it at 3200 requests/s", f.Growing)
	}
	if g := must.Get(predict.Sizes(leaky(0), predict.Sizing{Rate: 1000}))(t)[0].Growing; g != nil {
		t.Errorf("steady memory grows by %+v", g)
	}
}

// Limits of a variant are reported beside the size of the same mesh without: periods, OOM kills, and the growth of the p99.
func TestSizeHasWhatLimitsDid(t *testing.T) {
	s := answertest.Quickstart()
	s.RateFactor, s.Blocks, s.Drift = true, 6, 0
	s.Treatments = nil
	for _, name := range []string{"envoy", "envoy-100m", "envoy-16mi", "envoy-700m"} {
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
	run.File.Meshes = map[string]map[string]any{"envoy-100m": limited("cpu", "100m"), "envoy-16mi": limited("memory", "16MiB"), "envoy-700m": limited("cpu", "700m")}
	all := must.Get(predict.Sizes(run, predict.Sizing{Rate: 700}))(t)
	if len(all) != 1 || len(all[0].Limited) != 3 || all[0].LimitCPU != 0 {
		t.Fatalf("%+v, want one size with what three limits did", all)
	}
	cpu, memory := all[0].Limited[0], all[0].Limited[1]
	tasks := cpu.Periods / 100 / int64(cpu.Trials) // of a trial
	if cpu.CPU != 0.1 || cpu.At["rate"] != 800 || cpu.Trials != 6 || cpu.Reached != 90*6*tasks || cpu.OOMKilled != 0 || cpu.P99 == nil || !(*cpu.P99.Low > 1) {
		t.Errorf("limit of CPU: %+v", cpu)
	}
	if memory.Memory != 16 || memory.OOMKilled != 6 || memory.Trials != 6 || memory.Periods != 0 || memory.P99 != nil {
		t.Errorf("limit of memory: %+v", memory)
	}

	// The limit of 0.7 cores keeps the median of 1 ms, the limit of 0.1 cores has 5 ms.
	objective := must.Get(predict.ParseObjective("p50 < 3ms"))(t)
	size := must.Get(predict.Sizes(run, predict.Sizing{Rate: 700, Objective: objective}))(t)[0]
	met := map[float64]predict.Met{}
	for _, l := range size.Limited {
		if l.Memory == 0 {
			met[l.CPU] = l.Met
		}
	}
	if met[0] != predict.Holds || met[0.1] != predict.Missed || met[0.7] != predict.Holds || size.LimitCPU != 0.7 || size.Workers != 1 {
		t.Errorf("verdicts %v, CPU limit %v with request %v, %d workers", met, size.LimitCPU, size.RequestCPU, size.Workers)
	}
	if size = must.Get(predict.Sizes(run, predict.Sizing{Rate: 700, Headroom: 5, Objective: objective}))(t)[0]; size.LimitCPU != 0 || size.RequestCPU < 0.7 {
		t.Errorf("a CPU limit of %v, though the request is %v", size.LimitCPU, size.RequestCPU)
	}
}

// Variants that differ in an option are one curve, beside variants that differ in another. A number that was not measured is
// refused with the changes that add a variant.
func TestSizesOverAnOption(t *testing.T) {
	clusters := map[string]int{"envoy": 0, "c100": 100, "c1000": 1000, "e10": 0}
	s := answertest.Quickstart()
	s.RateFactor, s.Blocks, s.Drift = true, 6, 0
	s.Treatments = nil
	for _, name := range []string{"envoy", "c100", "c1000", "e10"} {
		for _, rate := range []float64{200, 400, 800} {
			s.Treatments = append(s.Treatments, answertest.Treatment{ID: name + "-rate" + strconv.Itoa(int(rate)), Factors: plan.Factors{"mesh": name, "rate": rate},
				Truth: answertest.Truth{AppUS: 60, DataUS: 400, LoadUS: 20, AppMiB: 14, DataMiB: 40, MedianMS: 1}})
		}
	}
	s.Change = func(r *result.Record) {
		for i, task := range r.Tasks {
			if task.Plane == metric.Data {
				r.Tasks[i].Task = mesh.Task{ID: "echo-0/sidecar", Pod: "echo-0", Service: "echo", Container: "sidecar", Plane: metric.Data, Role: mesh.RoleSidecar}
				r.Tasks[i].End.RSS = int64(40<<20 + clusters[r.Factors["mesh"].(string)]*(1<<20)/50)
				r.Tasks[i].End.Peak = r.Tasks[i].End.RSS
			}
		}
		r.Balance = &balance.Balance{Flows: []balance.Flow{{Place: balance.Place{Service: balance.LoadName, Point: balance.Sent, To: "echo"}}}}
	}
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	t.Cleanup(func() { d.Close() })
	run := must.Get(compare.Read(d, compare.Options{}))(t)
	run.File.Meshes = map[string]map[string]any{}
	run.Environment.Options = map[string]map[string]string{}
	for name, n := range clusters {
		options := map[string]string{"clusters": strconv.Itoa(n), "endpoints": "0"}
		if name == "e10" {
			options["endpoints"] = "10"
		}
		run.Environment.Options[name] = options
		if name != "envoy" {
			run.File.Meshes[name] = map[string]any{"from": "envoy", "options": map[string]any{}}
		}
	}
	all := must.Get(predict.Sizes(run, predict.Sizing{Rate: 300, At: map[string]float64{"clusters": 500}}))(t)
	if len(all) != 1 || all[0].Mesh != "envoy" || math.Abs(all[0].Memory.Estimate-50) > 0.5 {
		t.Fatalf("%+v, want the memory of 500 clusters, 50 MiB, from three variants", all)
	}
	_, err := predict.Sizes(run, predict.Sizing{Rate: 300, At: map[string]float64{"clusters": 3000}})
	must.Fail(t, err, "clusters 3000 was not measured, only 0 to 1000")
	var outside *predict.OutsideError
	if !errors.As(err, &outside) || !strings.Contains(hint.Of(err), "measure it: tare run FILE --set 'meshes.envoy-clusters-3000={") {
		t.Fatalf("%v, %q", err, hint.Of(err))
	}
	file := "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: t}\nmeshes: {c100: {from: envoy, options: {clusters: 100}}, c1000: {from: envoy, options: {clusters: 1000}}, e10: {from: envoy, options: {endpoints: 10}}}\n" +
		"factors: {mesh: [envoy, c100, c1000, e10], rate: [200, 400, 800]}\n"
	e := must.Get(experiment.Parse("x.yaml", []byte(file), experiment.Names{Meshes: []string{"none", "envoy"}, Generators: []string{"tare"}, Platforms: []string{"local"}}, outside.Changes()...))(t)
	names := experiment.LevelsOf[string](e.Factors, "mesh")
	if v := e.Meshes["envoy-clusters-3000"]; !slices.Equal(names, []string{"envoy", "c100", "c1000", "e10", "envoy-clusters-3000"}) || v.From != "envoy" || v.Options["clusters"] != "3000" {
		t.Errorf("meshes %q and %+v, want one more with 3000 clusters", names, v)
	}
	for _, options := range run.Environment.Options {
		delete(options, "clusters")
	}
	if _, err := predict.Sizes(run, predict.Sizing{Rate: 300, At: map[string]float64{"clusters": 3000}}); err == nil || !strings.Contains(err.Error(), "the run has no clusters") {
		t.Errorf("a mesh without the option: %v", err)
	}
}

func TestObjectivesAreLimitsOfTimes(t *testing.T) {
	o := must.Get(predict.ParseObjective(" p99.9 <= 1.5s"))(t)
	if *o != (predict.Objective{Text: "p99.9 <= 1.5s", Percentile: "p99.9", MS: 1500}) {
		t.Errorf("%+v", o)
	}
	for _, text := range []string{"", "p99", "p99 > 20ms", "errors < 1%", "p75 < 2ms", "p99 < 20ms, p50 < 1ms", "max < 1s", "p99 < soon"} {
		if o, err := predict.ParseObjective(text); err == nil {
			t.Errorf("%q is read as %+v", text, o)
		}
	}
}

// shared is a run of a waypoint and a proxy of the node, 0.3 ms of CPU a request each, and of a control plane, 0.01 cores.
func shared(t *testing.T) *compare.Run {
	t.Helper()
	return overRates(t, "istio-ambient", func(_ *result.Record, task result.TaskUsage) (all []result.TaskUsage) {
		for _, of := range []mesh.Task{
			{ID: "waypoint/proxy", Plane: metric.Data, Role: mesh.RoleWaypoint}, {ID: "ztunnel/proxy", Plane: metric.Data, Role: mesh.RoleNodeProxy}, {ID: "istiod/server", Plane: metric.Control, Role: "server"},
		} {
			part := task
			part.Task = of
			if of.Plane == metric.Control {
				part.End.CPU = part.Start.CPU + 50_000_000 // in 5 s
			}
			all = append(all, part)
		}
		return all
	})
}

func TestSizesOfSharedProxies(t *testing.T) {
	run := shared(t)
	sizes := func(s predict.Sizing) map[string]predict.Size {
		by := map[string]predict.Size{}
		for _, size := range must.Get(predict.Sizes(run, s))(t) {
			by[size.Proxy] = size
		}
		return by
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 0.05*want {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	// A replica of 0.5 cores has headroom up to 1333 requests/s.
	all := sizes(predict.Sizing{TotalRate: 10000, ReplicaCPU: 0.5, Headroom: 0.25})
	r := all[mesh.RoleWaypoint].Replicas
	if len(all) != 2 || r == nil || r.N != 8 || r.Rate != 1250 || r.Range {
		t.Fatalf("without a rate: %+v, replicas %+v", all, r)
	}
	near("CPU of all replicas", r.Cores.Estimate, 3)
	near("request of a replica", all[mesh.RoleWaypoint].RequestCPU, 0.5)
	near("CPU of the control plane", all[predict.ControlPlane].CPU.Estimate, 0.01)
	near("proxies of the control plane", all[predict.ControlPlane].Proxies, 2)
	if r = sizes(predict.Sizing{TotalRate: 10000, ReplicaCPU: 4})[mesh.RoleWaypoint].Replicas; r.N != 4 || !r.Range {
		t.Errorf("limited by the highest rate, 3200: %+v", r)
	}
	refused := func(s predict.Sizing, want, wantHint string) {
		t.Helper()
		err := must.Err(predict.Sizes(run, s))
		if must.Fail(t, err, want); !strings.Contains(hint.Of(err), wantHint) {
			t.Errorf("%v has the hint %q, want %q", err, hint.Of(err), wantHint)
		}
	}
	refused(predict.Sizing{TotalRate: 10000, ReplicaCPU: 0.05}, "a replica of 0.05 cores is too small even at the lowest measured rate, 200 requests/s", "raise --replica-cpu")
	refused(predict.Sizing{TotalRate: 150, ReplicaCPU: 1}, "150 requests/s are outside the measured range of 200 to 3200", "tare run FILE --set 'factors.rate=[150, 200, 400, 800, 1600, 3200]'")

	// The hottest of three nodes has 30 pods, 1.5 times the mean.
	node := sizes(predict.Sizing{Rate: 1000, Pods: []int{10, 20, 30}})[mesh.RoleNodeProxy]
	if node.Nodes == nil || node.Nodes.N != 3 || node.Nodes.Hottest != 30 || node.Nodes.Ratio != 1.5 {
		t.Fatalf("nodes %+v", node.Nodes)
	}
	near("CPU of the hottest node's proxy", node.CPU.Estimate, 0.45)
	near("CPU of a mean node's proxy", node.Nodes.CPU.Estimate, 0.3)
	refused(predict.Sizing{TotalRate: 0.5, ReplicaCPU: 1}, "0.5 requests/s are outside the measured range", "tare run FILE --set 'factors.rate=[0.5, 200, ")
	refused(predict.Sizing{Rate: 3200.2}, "3200.2 requests/s are outside the measured range", "3200, 3201]'")
	refused(predict.Sizing{Rate: 2500, Pods: []int{10, 20, 30}}, "3750 requests/s are outside the measured range", "tare run FILE --set 'factors.rate=[200, 400, 800, 1600, 3200, 3750]'")
}

// lasting makes the trials of a run last a time, which is not that of its plan.
func lasting(run *compare.Run, each time.Duration) {
	for i := range run.Records {
		r := &run.Records[i]
		r.Started = time.Unix(0, 0).Add(time.Duration(i) * each)
		r.Ended = r.Started.Add(each)
	}
}

// Runs that would help are named, with what they change.
func TestNextRuns(t *testing.T) {
	run := written(t)
	lasting(run, 10*time.Second)
	s := predict.Sizing{Rate: 1500, Headroom: 0.3}
	all := must.Get(predict.Sizes(run, s))(t)
	all[0].CPU.Low, all[0].CPU.High = 0.9*all[0].CPU.Estimate, 1.1*all[0].CPU.Estimate
	var sets []string
	var takes []time.Duration
	for _, step := range predict.Next(run, s, all) {
		takes = append(takes, step.Takes)
		sets = append(sets, step.Set...)
	}
	want := []string{"factors.rate=[200, 400, 800, 1600, 3200, 4500, 6400]",
		"meshes.envoy-785m={from: envoy, resources: {limits: {cpu: 785m}}}", "meshes.envoy-392m={from: envoy, resources: {limits: {cpu: 392m}}}", "factors.mesh=[envoy, envoy-785m, envoy-392m]", "baseline={mesh: envoy}",
		"blocks=12"}
	if len(sets) != len(want) || sets[0] != want[0] || sets[4] != want[4] || sets[5] != want[5] {
		t.Errorf("changes %q, want such as %q", sets, want)
	}
	if want := []time.Duration{7 * 6 * 10 * time.Second, 3 * 5 * 6 * 10 * time.Second, 5 * 12 * 10 * time.Second}; !slices.Equal(takes, want) {
		t.Errorf("runs take %v, want %v", takes, want)
	}
	form, place := all[0].Curve.Form, all[0].Place
	all[0].Curve.Form, all[0].Place = "between", []float64{1000} // of each of two proxies
	if first := predict.Next(run, s, all)[0]; first.Set[0] != "factors.rate=[200, 400, 800, 1600, 2000, 3200]" || first.Takes != 6*6*10*time.Second {
		t.Errorf("without a form: %+v, want the rate itself", first)
	}
	all[0].Place = []float64{800}
	if first := predict.Next(run, s, all)[0]; first.Set[0] != want[0] {
		t.Errorf("at a measured rate: %+v", first)
	}
	all[0].Curve.Form, all[0].Place = form, place
	all[0].RequestCPU = 0.1
	run.File.Platform.Kind = mesh.OnKubernetes // refuses a limit below the mesh's own request
	if set := predict.Next(run, s, all)[1].Set; set[1] != "meshes.envoy-50m={from: envoy, resources: {requests: {cpu: 50m}, limits: {cpu: 50m}}}" {
		t.Errorf("on a cluster: %q", set)
	}
	run.Plan.Order = "interleaved" // limits would be refused
	if steps := predict.Next(run, s, all); len(steps) != 2 || steps[0].Set[0] != want[0] || steps[1].Set[0] != want[5] {
		t.Errorf("steps of an interleaved run: %+v", steps)
	}
	s.Rate, all[0].Limited = 200, []predict.Limited{{CPU: 0.1}}
	all[0].CPU.Low, all[0].CPU.High = all[0].CPU.Estimate, all[0].CPU.Estimate
	if steps := predict.Next(run, s, all); steps != nil {
		t.Errorf("nothing is missing, but %+v", steps)
	}
}
