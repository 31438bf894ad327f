package figures

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// The log begins 5 s before answers of 2, 3, 4 ms and so on. A measure window of 10 s after 8 s has those of 5 to 14 ms.
func TestLatenciesOfTheWindowByHand(t *testing.T) {
	r := handRecord()
	r.Load.WarmupSeconds, r.Load.Recorded = 8, 1000
	f := &figures{values: map[string]float64{}}
	latencyFigures(f, &r, rising(t, 20), false)
	for part, want := range map[string]float64{"mean": 9.5, "p50": 9, "p90": 13, "p99": 14, "max": 14} {
		if got := f.values[metric.Of(metric.Latency, part)]; math.Abs(got-want) > 0.01 {
			t.Errorf("%s is %v ms, want %v", part, got, want)
		}
	}
	if len(f.warnings) != 2 { // 99.9 and 99.99 % need more
		t.Errorf("%+v", f.warnings)
	}
}

// The answers of the measure window alone are those that the generator counted.
func TestResponseTimesOfTheWindow(t *testing.T) {
	s := answertest.Quickstart()
	s.Blocks, s.Treatments = 1, s.Treatments[:1]
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	r := must.Get(d.Records())(t)[0]
	h := must.Get(ResponseTimes(d, &r))(t)
	if h.TotalCount() != r.Load.Completed || r.Load.Completed < 1000 {
		t.Errorf("%d answers in the window, counted %d", h.TotalCount(), r.Load.Completed)
	}
}

// A thousandth of the answers may lack, and always two. Windows of whole seconds are compared with the log.
func TestCountsOfTheLogAtTheLimit(t *testing.T) {
	recorded := func(n int64) *result.Load { return &result.Load{Recorded: n} }
	lasting := func(seconds float64) *result.Load {
		return &result.Load{Classes: map[string]int64{"2xx": 1000}, WarmupSeconds: 3, MeasureSeconds: seconds}
	}
	for _, c := range []struct {
		load   *result.Load
		got    int64
		warned bool
	}{
		{recorded(10_000), 9990, false}, {recorded(10_000), 10_010, false}, {recorded(10_000), 9989, true}, {recorded(10_000), 10_011, true},
		{recorded(500), 498, false}, {recorded(500), 497, true}, {lasting(10.0005), 900, true}, {lasting(9.9995), 900, true}, {lasting(10.002), 900, false}, {lasting(10), 1000, false},
	} {
		f := &figures{}
		if checkCount(f, c.load, c.got); (len(f.warnings) > 0) != c.warned {
			t.Errorf("%d of %+v: %+v", c.got, c.load, f.warnings)
		}
	}
}

// 600 messages in 10 s are 60 a second. In the half of them with the load they are 120. A median needs 20 times.
func TestStreamsByHand(t *testing.T) {
	times := result.MessageTimes{Count: 20, Mean: 4, P50: 3, P90: 9, P99: 12}
	few := times
	few.Count = 19
	s := &result.Stream{Messages: 600, FirstByteMS: times, GapMS: few}
	for rate, slices := range map[float64]*result.OwnSlices{60: nil, 120: {Count: 25, LengthSeconds: 0.25, GuardSeconds: 0.05}} {
		f := &figures{values: map[string]float64{}}
		streamFigures(f, &result.Record{Load: &result.Load{MeasureSeconds: 10, Slices: slices, Stream: s}})
		want := map[string]float64{metric.MessageRate: rate, metric.Of(metric.FirstByte, "mean"): 4, metric.Of(metric.FirstByte, "p50"): 3, metric.Of(metric.MessageGap, "mean"): 4}
		if same(t, f.values, want); len(f.values) != len(want) {
			t.Errorf("%v, want %v", f.values, want)
		}
	}
}

// A trial that had the load in 5 of 10 s has twice the rate and twice the cores, and the cost of a request as it is.
func TestInterleavedTrialByHand(t *testing.T) {
	r := handRecord()
	r.Load.Slices = &result.OwnSlices{Count: 25, LengthSeconds: 0.25, GuardSeconds: 0.05}
	r.Tasks[1].Role, r.Tasks[2].Role = "sidecar", "waypoint"
	r.Tasks[1].IdleRSS, r.Tasks[2].IdleRSS = 24<<20, 12<<20
	f := trialFigures(&r, false)
	same(t, f.values, map[string]float64{"rate": 2000, "bytes_per_s/in": 1_000_000, "bytes_per_s/out": 200_000, "cpu_cores/app": 1.2, "cpu_cores/total": 4,
		"cpu_us_per_request/app": 600, "cpu_cores_per_1000_rps/app": 0.6, metric.Of(metric.IdleMemory, "data"): 36})
	if _, known := f.values[metric.NodeCPU]; known {
		t.Error("a machine that other treatments used too has CPU")
	}
	for role, want := range map[string][3]float64{"sidecar": {1.4, 700, 30}, "waypoint": {1, 500, 25}} {
		of := f.roles[TaskRole{metric.Data, role, ""}]
		same(t, of, map[string]float64{metric.CPUCores: want[0], metric.CPUPerRequest: want[1], metric.Memory: want[2]})
	}
}

// Without a task of the load its report of 2.5 s in 10 s is its CPU.
func TestCPUOfTheGeneratorByHand(t *testing.T) {
	r := handRecord()
	r.Tasks = append(r.Tasks[:4:4], r.Tasks[5])
	r.Load.CPUSeconds = new(2.5)
	same(t, trialFigures(&r, false).values, map[string]float64{"cpu_cores/load": 0.25, "cpu_cores/cluster": 2.25})
}

// 2 µs an operation are 2,000 ns. Two executions have a mean.
func TestBenchmarksByHand(t *testing.T) {
	of := func(seconds float64) execution.Reading {
		return execution.Reading{Wall: 1e6, Benchmarks: map[string]map[string]float64{"Read-2": {"sec/op": seconds, "B/op": 16, "allocs/op": 3}}}
	}
	f := &figures{values: map[string]float64{}}
	executionFigures(f, &result.Record{Executions: []execution.Reading{of(2e-6), of(3e-6)}})
	same(t, f.values, map[string]float64{metric.Of(metric.BenchmarkTime, "Read-2"): 2500, metric.Of(metric.BenchmarkBytes, "Read-2"): 16, metric.Of(metric.BenchmarkAllocs, "Read-2"): 3})
}

// Two of three trials have two sidecars, and one has one: the sum of the plane is unknown in all.
func TestTasksThatDifferAreCounted(t *testing.T) {
	task := func(id string) result.TaskUsage { return usage(id, metric.Data, 0.1, 10) }
	var records []result.Record
	for range 2 {
		records = append(records, result.Record{Valid: true, Factors: map[string]any{"mesh": "a"}, Tasks: []result.TaskUsage{task("echo/sidecar"), task("echo/sidecar"), task("load/sidecar")}})
	}
	records = append(records, result.Record{Valid: true, Factors: map[string]any{"mesh": "a", plan.ControlFactor: true}, Tasks: []result.TaskUsage{task("echo/sidecar"), task("load/sidecar")}},
		result.Record{Valid: true, Factors: map[string]any{"mesh": "b"}, Tasks: []result.TaskUsage{task("echo/sidecar")}})
	all := makeUp(result.Environment{Platform: mesh.OnKubernetes}, records)
	for i, unknown := range []bool{true, true, true, false} {
		w, is := all[i][metric.Data]
		if is != unknown || is && !strings.HasSuffix(w.Message, ": 2 of echo/sidecar in 2 of 3 trials") {
			t.Errorf("trial %d: %+v", i, w)
		}
	}
	var f figures
	missing(&f, []result.TaskUsage{{Task: mesh.Task{ID: "a", Plane: metric.App}, Start: result.Reading{At: edge, CPU: 50}, End: result.Reading{At: edge.Add(seconds(10)), CPU: 20}}})
	must.Contain(t, f.warnings[0].Message, "task a changed by -30 ns in 10s")
}

// Two warnings of one trial count once.
func TestTrialsOfWarningsAreCounted(t *testing.T) {
	altered := Warning{Code: result.RecordAltered, Message: "changed"}
	trial := func(id string, ws ...Warning) Measured { return Measured{Trial: Trial{ID: id, Warnings: ws}} }
	ws := Distrusted([]Measured{trial("a", altered, altered), trial("b", altered), trial("c"), trial("d", altered)})
	if len(ws) != 1 || ws[0].Trials != 3 || ws[0].Message != "trial a and 2 others: changed" {
		t.Errorf("%+v", ws)
	}
}

// 100 answers of each of 2 to 9 ms: the 400th of 800 takes 5 ms, and the 720th 9.
func TestQuantilesOfHandPhases(t *testing.T) {
	r := failureRecord(0)
	r.ByHand = []result.ByHand{{Target: "front-0", At: edge.Add(seconds(8))}}
	phases := handPhases(&r, rising(t, 10))
	if len(phases) != 2 {
		t.Fatalf("%+v", phases)
	}
	same(t, phases[0].Metrics, map[string]float64{metric.Rate: 100})
	for part, want := range map[string]float64{"p50": 5, "p90": 9} {
		if got := phases[0].Metrics[metric.Of(metric.Latency, part)]; math.Abs(got-want) > 0.01 {
			t.Errorf("%s is %v ms, want %v", part, got, want)
		}
	}
}

// Bursts of trials came after 1, 2, 4 and 8 s: the third of four is the period. Their loss of 0.2 ms lasts 4 s beside 2 s of others.
func TestPeriodOfBurstsByHand(t *testing.T) {
	var trials []*sliced
	for _, period := range []float64{8, 1, 4, 2} {
		trials = append(trials, &sliced{record: &result.Record{BurstSeconds: period, Placing: &result.Placing{Seconds: 1}}, limits: map[metric.Plane]Limit{},
			rows: []result.Slice{{Own: true, End: seconds(1), CPU: map[metric.Plane]int64{metric.App: 20e6}}, {Begin: seconds(1), End: seconds(3)}}})
	}
	boundLoss(trials, metric.App, 0.2e-3)
	if got := trials[1].limits[metric.App].Above; math.Abs(got-0.4e-3) > 1e-12 {
		t.Errorf("a limit of %v s, want 0.4 ms", got)
	}
}

// Ten answers with 2xx, four others and six failures in two seconds are 7 answers/s, of which half failed. 2 s of CPU in 2 s are a core.
func TestSecondsOfHandPhases(t *testing.T) {
	r := &result.Record{Load: &result.Load{}, Tasks: []result.TaskUsage{{Task: mesh.Task{Plane: metric.App}, Memory: []result.MemoryReading{{Seconds: 2, CPU: 1e9}, {Seconds: 4, CPU: 3e9}}}}}
	p := HandPhase{Metrics: map[string]float64{}}
	p.measure(r, []expect.Second{{OK: 6, Status: 3, Other: 1}, {OK: 4, Status: 1, Other: 5}}, 2, 4)
	for name, want := range map[string]float64{metric.Rate: 7, metric.ErrorRatio: 0.5, "cpu_cores/app": 1, "cpu_us_per_request/app": 1e6 / 7} {
		if got := p.Metrics[name]; math.Abs(got-want) > 1e-12*want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if all, lost := CountEnded(&result.Load{Classes: map[string]int64{"2xx": 990, "conn": 7, "timeout": 3}}); all != 1000 || lost != 10 {
		t.Errorf("%d of %d failed, want 10 of 1000", lost, all)
	}
}

// Two planes have 29 and 19 ms more for each of two changes. A failure of each saved 0.1 ms in both, at 100 answers/s and 10 ms a second,
// which is less than a tenth.
func TestFewFailuresSaveLittle(t *testing.T) {
	changes := changed(2, 10, 12)
	for i := range changes {
		changes[i].Failed = 1
		changes[i].CPU = &result.ChangeCPU{Seconds: [2]float64{0.1, 0.1}, NS: map[metric.Plane][2]int64{metric.App: {30e6, 1e6}, metric.Control: {20e6, 1e6}}}
	}
	f := &figures{values: map[string]float64{}}
	changeCPU(f, metric.RouteChanged, &result.Record{Changes: changes, Load: &result.Load{Completed: 500, MeasureSeconds: 5}})
	same(t, f.values, map[string]float64{metric.Of(metric.ChangeCPU, metric.RouteChanged+"-app"): 29, metric.Of(metric.ChangeCPU, metric.RouteChanged+"-control"): 19})
	f = &figures{values: map[string]float64{}}
	changeFigures(f, &result.Record{Changes: changed(40, 900, math.Inf(1))})
	must.Contain(t, f.warnings[0].Message, "the 50 % quantile of ")
}
