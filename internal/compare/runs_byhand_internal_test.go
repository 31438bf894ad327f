package compare

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// costly is a run of three blocks on this machine: the application costs 100 µs a request without a mesh, and some more with one.
func costly(t *testing.T, costs ...float64) *result.Dir {
	t.Helper()
	return costlyIn(t, []string{"none", "envoy"}, costs...)
}

// costlyIn is costly with other meshes. The first is the baseline.
func costlyIn(t *testing.T, meshes []string, costs ...float64) *result.Dir {
	t.Helper()
	onMesh := func(level string) plan.Factors { return plan.Factors{"mesh": level} }
	s := answertest.Study{Name: "costly", Blocks: len(costs), Seed: 3, Warmup: 1, Measure: 10, Rate: 100, Bare: true}
	for i, id := range meshes {
		treatment := answertest.Treatment{ID: id, Factors: onMesh(id)}
		if i > 0 {
			treatment.Baseline = meshes[0]
		}
		s.Treatments = append(s.Treatments, treatment)
	}
	s.Change = func(r *result.Record) {
		us := 100.0
		if r.Treatment == "envoy" {
			us += costs[r.Block-1]
		}
		for i := range r.Tasks {
			u := &r.Tasks[i]
			if u.Start.At, u.End.At = r.Load.Start, r.Load.End; u.Plane == metric.App {
				u.End.CPU = u.Start.CPU + int64(us*1e3)*r.Load.Completed
			}
		}
	}
	return s.Write(t, filepath.Join(t.TempDir(), "run"))
}

var totalCPU = metric.Of(metric.CPUPerRequest, "total")

// Differences of 48, 50 and 52 µs have a deviation of 2, and of 46, 50 and 54 of 4, both of a mean of 150: √((2·2²+2·4²)/4)/150 with four
// degrees of freedom. Six pairs find 1.4352 deviations with 80 % (R's power.t.test).
func TestSensitivitiesByHand(t *testing.T) {
	runs := []*result.Dir{costly(t, 48, 50, 52), costly(t, 46, 50, 54)}
	p := runs[0].Plan()
	all := must.Get(Sensitivities(&p, runs, 0.95))(t)
	i := slices.IndexFunc(all, func(s Sensitivity) bool { return s.Metric == totalCPU })
	if i < 0 || len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	want := stats.DeviationInterval(math.Sqrt(10)/150, 4, 0.95)
	wants(t, "spread", all[i].Spread.Estimate, want.Estimate)
	wants(t, "low", *all[i].Spread.Low, *want.Low)
	wants(t, "level", all[i].Level, 0.05/2) // CPU of the application and of all
	run := must.Get(Read(runs[0], Options{}))(t)
	for share, want := range map[float64]int{1.436 * 2 / 150: 6, 1.434 * 2 / 150: 7} {
		if n, ok := run.BlocksToDetect("envoy", totalCPU, share); !ok || n != want {
			t.Errorf("%v: %d blocks, want %d", share, n, want)
		}
	}
	if n, ok := run.BlocksToDetect("envoy", metric.Of(metric.CPUPerRequest, "data"), 0.1); ok {
		t.Errorf("no CPU: %d blocks", n)
	}
}

// Four runs with costs of 150 % of the baseline and four with 180 %: the change is at the fifth. Of 70 divisions into halves, two have
// all larger ones on one side.
func TestHistoryByHand(t *testing.T) {
	var dirs []*result.Dir
	for i := range MinHistory {
		more := 50.0
		if i >= 4 {
			more = 80
		}
		dirs = append(dirs, costly(t, more, more, more))
	}
	h := must.Get(Histories(dirs, 0.05, Options{}))(t)
	i := slices.IndexFunc(h.Series, func(s Series) bool { return s.Metric == totalCPU && s.RelativeTo != "" })
	if i < 0 {
		t.Fatalf("%+v", h.Series)
	}
	s := h.Series[i]
	if !slices.Equal(s.Runs, []int{0, 1, 2, 3, 4, 5, 6, 7}) || len(s.Changes) != 1 || s.Changes[0].Run != 4 || len(h.Obstacles) != 0 {
		t.Fatalf("%+v, %+v", s, h.Obstacles)
	}
	wants(t, "before", s.Changes[0].Before, 1.5)
	wants(t, "after", s.Changes[0].After, 1.8)
	if p := s.Changes[0].P; math.Abs(p-2/70.0) > 4*math.Sqrt(2/70.0/999) {
		t.Errorf("p %v, want about 2/70", p)
	}
	if _, err := Histories(dirs[1:], 0.05, Options{}); err == nil {
		t.Error("seven runs have a history")
	}
}

// One change of earlier runs to a new one: 100 µs each time, and then 130.
func TestChangeFromRunsByHand(t *testing.T) {
	bases := []*result.Dir{costly(t, 48, 50, 52), costly(t, 58, 60, 62), costly(t, 53, 55, 57)}
	a := must.Get(CompareRuns(bases, costly(t, 78, 80, 82), AcrossOptions{}))(t)
	i := slices.IndexFunc(a.Changes, func(c Comparison) bool { return c.Treatment == "envoy" && c.Metric == totalCPU })
	c := a.Changes[i]
	wants(t, "difference", c.Difference.Estimate, 25) // means of 150, 160 and 155
	half, _ := c.Difference.HalfWidth()
	wants(t, "half width", half, stats.StudentHalfWidth(5*math.Sqrt(4.0/3), 2, 0.95))
	wants(t, "deviation between runs", *c.BetweenRuns, 5)
	if c.NBase != 9 || c.NNew != 3 || c.BaseRuns != 3 || c.N != 3 || c.Warm != nil {
		t.Errorf("%+v, %+v", c.Runs, c.Warm)
	}
}

// Each of two runs has a mesh that the other lacks. Without a common one there is nothing to compare.
func TestRunsWithoutPartners(t *testing.T) {
	base := costlyIn(t, []string{"none", "envoy"}, 48, 50, 52)
	a := must.Get(CompareRuns([]*result.Dir{base}, costlyIn(t, []string{"none", "linkerd"}, 48, 50, 52), AcrossOptions{Anyway: true}))(t)
	if !slices.Equal(a.OnlyBase, []string{"envoy"}) || !slices.Equal(a.OnlyNew, []string{"linkerd"}) || !slices.ContainsFunc(a.Warnings, func(w figures.Warning) bool { return w.Code == "without-partner" }) {
		t.Errorf("%v, %v, %+v", a.OnlyBase, a.OnlyNew, a.Warnings)
	}
	for i := range a.Changes {
		if c := &a.Changes[i]; c.Treatment != "none" || !c.Reference {
			t.Errorf("%s is a reference: %v", c.Treatment, c.Reference)
		}
	}
	_, err := CompareRuns([]*result.Dir{base}, costlyIn(t, []string{"linkerd"}, 48, 50, 52), AcrossOptions{Anyway: true})
	must.Contain(t, fmt.Sprint(err), "no treatment in common")
}

// Memory of 60 MiB that grows by 5, 6 and 7 a minute grew in the new run, and by -1, 0 and 1 not in the base run.
func TestGrowthOfEitherRun(t *testing.T) {
	memory, growth := metric.Of(metric.Memory, "data"), metric.Of(metric.MemoryGrowth, "data")
	of := func(mean float64) earlier {
		run := &Run{estimator: estimator{confidence: 0.95, method: Paired, blocks: 3}, Plan: plan.Plan{Blocks: 3, Treatments: []plan.Treatment{{ID: "b"}}}}
		for i := range 3 {
			run.Trials = append(run.Trials, figures.Measured{Trial: figures.Trial{ID: fmt.Sprint(i), Treatment: "b", Block: i + 1, Valid: true, Metrics: map[string]float64{memory: 60, growth: mean + float64(i-1)}}})
			run.Records = append(run.Records, result.Record{Treatment: "b", Load: &result.Load{MeasureSeconds: 120}})
		}
		return earlier{run: run}
	}
	for i, want := range []struct{ base, next *float64 }{{nil, new(6.0)}, {new(6.0), nil}} {
		a := &Across{Changes: []Comparison{{Treatment: "b", Metric: memory, Runs: &Runs{}}}, matched: map[string][]string{"b": {"b", "b"}}}
		a.runs = []earlier{of(6 * float64(i)), of(6 - 6*float64(i))}
		a.markGrowth()
		is := func(e *stats.Interval, want *float64) bool {
			return (e == nil) == (want == nil) && (e == nil || math.Abs(e.Estimate-*want) < 1e-9)
		}
		if c := a.Changes[0]; !is(c.BaseGrowth, want.base) || !is(c.NewGrowth, want.next) || len(c.Warnings) != 1 {
			t.Errorf("growth in run %d: %+v, %+v, %+v", 1-i, c.BaseGrowth, c.NewGrowth, c.Warnings)
		}
	}
}

// Two of three blocks have both trials. A block has 90 s, and the last one another 50.
func TestLooksByHand(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := &Run{Plan: plan.Plan{Blocks: 3}, lastLook: 3}
	for block := 1; block <= 3; block++ {
		for i := range 2 {
			run.Plan.Trials = append(run.Plan.Trials, plan.Trial{Block: block})
			began := start.Add(time.Duration(len(run.Records)) * 45 * time.Second)
			if block < 3 || i == 0 {
				run.Records = append(run.Records, result.Record{Block: block, Started: began, Ended: began.Add(45 * time.Second)})
				run.Trials = append(run.Trials, figures.Measured{Trial: figures.Trial{Block: block}})
			}
		}
	}
	l := &Looks{run: run}
	if l.To() != 2 || !l.EndsAt(3) || l.EndsAt(2) {
		t.Errorf("to %d", l.To())
	}
	for block, want := range map[int]time.Duration{1: 90 * time.Second, 2: 180 * time.Second, 3: 225 * time.Second} {
		if got := l.Elapsed(block); got != want {
			t.Errorf("%v until block %d, want %v", got, block, want)
		}
	}
	if got := blockTime(run); got != 75*time.Second { // a third of 225 s
		t.Errorf("%v for each block", got)
	}
	if isLastLook(run) {
		t.Error("a trial of the last block lacks")
	}
	run.Records = append(run.Records, result.Record{})
	run.Plan.Trials = append(run.Plan.Trials, plan.Trial{Block: 4}) // beyond the blocks that the run has
	if !isLastLook(run) {
		t.Error("all trials are recorded")
	}
	run.Plan.Blocks = 2
	if isLastLook(run) {
		t.Error("the last look is after block 3")
	}
}

// Of seven planned trials three are used, and one each is invalid and failed.
func TestTrialsAreCounted(t *testing.T) {
	run := &Run{Plan: plan.Plan{Blocks: 2, Trials: make([]plan.Trial, 7)}}
	for range 3 {
		run.Trials = append(run.Trials, figures.Measured{Trial: figures.Trial{Valid: true}})
	}
	run.Trials = append(run.Trials, figures.Measured{Trial: figures.Trial{Error: "x"}}, figures.Measured{})
	if got := run.Count(); got != (Count{Blocks: 2, Planned: 7, Used: 3, Invalid: 1, Failed: 1, Missing: 2}) {
		t.Errorf("%+v", got)
	}
	var a Across
	if a.warnOf("new run", run); len(a.Warnings) != 1 || a.Warnings[0].Trials != 4 {
		t.Errorf("%+v", a.Warnings)
	}
	run = &Run{Records: []result.Record{{Executions: make([]execution.Reading, 2)}, {Executions: make([]execution.Reading, 3)}}}
	if got := run.Setup().Executions; got != 5 {
		t.Errorf("%d executions, want 5", got)
	}
	record := result.Record{Load: &result.Load{MeasureSeconds: 10}, Background: &result.Background{Services: 20, Asked: 2, Changes: 19}}
	other := record
	other.Background = &result.Background{Changes: 16}
	must.Contain(t, backgroundOf([]result.Record{record, other}, mesh.OnLocal), "with 1.75 changes per second (2 asked)") // 35 in 20 s
	// 20 slices of 0.4 s with guards of 0.1 s have 6 s of load.
	if got := LoadedSeconds([]result.Record{{Load: &result.Load{MeasureSeconds: 5}}, {Load: &result.Load{MeasureSeconds: 10, Slices: &result.OwnSlices{Count: 20, LengthSeconds: 0.4, GuardSeconds: 0.1}}}, {}}); math.Abs(got-6) > 1e-12 {
		t.Errorf("%v s of load, want 6", got)
	}
}

// Workloads of others used 1 core beside the baseline, and the cluster 4. A tenth of 5 may be more. Student's t of differences of 1.515 and
// 4.485, each twice, is 3.5: shown by one test at 5 %, and not by one of two (quantiles 3.182 and 4.177 with three degrees of freedom).
func TestForeignCPUByHand(t *testing.T) {
	const cluster = metric.CPUCores + "/cluster"
	run := func(treatments map[string][]float64) *Run {
		r := &Run{estimator: estimator{confidence: 0.95, method: Paired, blocks: 4}, Plan: plan.Plan{Treatments: []plan.Treatment{{ID: "a"}}}}
		r.File.Validity.Unattributed = 0.1
		add := func(id string, more []float64) {
			for i, v := range more {
				r.Trials = append(r.Trials, figures.Measured{Trial: figures.Trial{ID: fmt.Sprint(id, i), Treatment: id, Block: i + 1, Valid: true, Metrics: map[string]float64{figures.ForeignCPU: 1 + v, cluster: 4}}})
			}
		}
		add("a", []float64{0, 0, 0, 0})
		for id, more := range treatments {
			r.Plan.Treatments = append(r.Plan.Treatments, plan.Treatment{ID: id, Baseline: "a"})
			add(id, more)
		}
		r.invalidateForeign()
		return r
	}
	wide := []float64{1.515, 4.485, 1.515, 4.485}
	for _, c := range []struct {
		treatments map[string][]float64
		invalid    int
	}{
		{map[string][]float64{"b": {0.5, 0.52, 0.5, 0.51}}, 4}, {map[string][]float64{"b": {0.48, 0.5, 0.48, 0.49}}, 0}, {map[string][]float64{"b": {-0.5, -0.52, -0.5, -0.51}}, 4},
		{map[string][]float64{"b": wide}, 4}, {map[string][]float64{"b": wide, "c": {0, 0.01, 0, 0.01}}, 0},
	} {
		invalid := 0
		for _, trial := range run(c.treatments).Trials {
			if !trial.Valid {
				invalid++
				must.Contain(t, trial.Warnings[0].Message, "limit 0.500, 10.0 % of all CPU")
			}
		}
		if invalid != c.invalid {
			t.Errorf("%v: %d invalid trials, want %d", c.treatments, invalid, c.invalid)
		}
	}
}

// Costs of 400, 300 and 150 µs beyond the baseline's 10, in weights of 200, 100 and 50 µs: 2, 3 and 3.
func TestStandardWeightsByHand(t *testing.T) {
	data := metric.Of(metric.CPUPerRequest, "data")
	run := &Run{estimator: estimator{confidence: 0.95, method: Paired, blocks: 3}, Plan: plan.Plan{Treatments: []plan.Treatment{{ID: "none"}, {ID: "reference", Baseline: "none", Reference: true}, {ID: "envoy", Baseline: "none"}}}}
	all := run.standardWeights(map[string][]figures.Measured{"none": measuredIn("none", data, 10, 10, 10), "reference": measuredIn("reference", data, 200, 100, 50), "envoy": measuredIn("envoy", data, 410, 310, 160)})
	if len(all) != 1 || len(all[0].Costs) != 1 {
		t.Fatalf("%+v", all)
	}
	c := all[0].Costs[0]
	wants(t, "weight", all[0].Weight.Estimate, 350.0/3)
	wants(t, "in weights", c.Weights.Estimate, 8.0/3)
}

// Four pairs of executions have the logarithms 0.08, 0.1, 0.1 and 0.12, in a run that ends by its gates. The quantile for 2.5 % on each
// side is 3.182 with three degrees of freedom, which the simulation has to 1 %.
func TestExecutedByHand(t *testing.T) {
	run := &Run{estimator: estimator{confidence: 0.95, method: Paired, blocks: 4}, Plan: plan.Plan{Blocks: 4, Treatments: []plan.Treatment{{ID: "a"}, {ID: "b", Baseline: "a"}}}, Planned: 4, lastLook: 4}
	run.File.Decide.Gates = []string{"wall_time < +5%"}
	for i, log := range []float64{0.08, 0.12, 0.1, 0.1} {
		run.Trials = append(run.Trials, measuredIn("a", metric.WallTime, make([]float64, i+1)...)[i], measuredIn("b", metric.WallTime, make([]float64, i+1)...)[i])
		run.Trials[2*i].Metrics[metric.WallTime], run.Trials[2*i+1].Metrics[metric.WallTime] = 50, 50*math.Exp(log)
	}
	cs := []Comparison{{Treatment: "b", Baseline: "a", Metric: metric.WallTime, Ratio: interval(1.01, 1.03)}, {Treatment: "b", Baseline: "a", Metric: metric.Rate, Ratio: interval(1, 2)}}
	d := run.Executed(cs)
	if len(d) != 1 || d[0].Change == nil || !d[0].Change.Known() {
		t.Fatalf("%+v", d)
	}
	half := 3.1824 * math.Sqrt(8e-4/3/4)
	for name, x := range map[string][2]float64{"low": {*d[0].Change.Low, 100 * math.Expm1(0.1-half)}, "change": {d[0].Change.Estimate, 100 * math.Expm1(0.1)}, "high": {*d[0].Change.High, 100 * math.Expm1(0.1+half)}} {
		if math.Abs(x[0]-x[1]) > 0.1 {
			t.Errorf("%s is %v %%, want %v", name, x[0], x[1])
		}
	}
	wants(t, "geometric mean", *d[0].B, 50*math.Exp(0.1))
	run.File.Decide.Gates, run.estimator.method = nil, Unpaired
	d = run.Executed(cs)
	wants(t, "change of the comparison", d[0].Change.Estimate, 2)
	wants(t, "baseline", *d[0].A, 50)
}

// A gate that is undecided after four blocks of 90 s needs as many minutes as 1.5 for each further pair.
func TestMinutesOfMorePairs(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := &Run{estimator: estimator{confidence: 0.95, method: Paired, blocks: 4}, Plan: plan.Plan{Blocks: 4, Treatments: []plan.Treatment{{ID: "a"}, {ID: "b", Baseline: "a"}}}, Planned: 30}
	run.File.Decide.Gates = []string{"memory_mib/data < +5"}
	for i, more := range []float64{0, 9, -3, 6} {
		for id, v := range map[string]float64{"a": 50, "b": 50 + more} {
			run.Trials = append(run.Trials, figures.Measured{Trial: figures.Trial{ID: fmt.Sprint(id, i), Treatment: id, Block: i + 1, Valid: true, Metrics: map[string]float64{"memory_mib/data": v}}})
		}
		began := start.Add(time.Duration(i) * 90 * time.Second)
		run.Records = append(run.Records, result.Record{Treatment: "x", Block: i + 1, Started: began, Ended: began.Add(90 * time.Second)})
	}
	d := must.Get(run.Decisions())(t)[0]
	// The mean 3 is 2 below the limit, and the variance 30.
	more := morePairs(2/math.Sqrt(30), 4)
	if d.Outcome != Undecided || d.MorePairs != more || more < 2 || d.Minutes != 1.5*float64(more) {
		t.Errorf("%+v, want %d pairs", d, more)
	}
}

// Memory of 60 MiB that grows by 5 to 7 a minute has grown by more than 2 % in the second half of 30 s.
func TestMarksOfGrowthByHand(t *testing.T) {
	memory, growth, request := metric.Of(metric.Memory, "data"), metric.Of(metric.MemoryGrowth, "data"), metric.Of(metric.MemoryGrowthPerRequest, "data")
	treatment := Treatment{ID: "b", Metrics: map[string]Estimate{memory: {Interval: *interval(59, 61)}, growth: {Interval: *interval(5, 7)}, request: {Interval: stats.Interval{Estimate: 12340}, N: 3}}}
	MarkGrowth([]Treatment{treatment}, 30)
	of, w, ok := treatment.Growing(memory)
	if !ok || of.Estimate != 6 || w.Message != "still growing at the end by 6 MiB a minute (5 to 7), 12.34 KiB a request" {
		t.Errorf("%+v, %+v, %v", of, w, ok)
	}
	if m := relations(totalCPU, Estimate{Interval: stats.Interval{Estimate: 300}}, &Treatment{Metrics: map[string]Estimate{totalCPU: {Interval: stats.Interval{Estimate: 120}}}}); len(m) != 2 || m[1].value != 2.5 {
		t.Errorf("%+v, want 2.5 times the baseline", m)
	}
}
