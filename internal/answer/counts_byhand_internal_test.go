package answer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

// Proxies handled 20, 40 and 90 requests without their retries, for 10 of the load: 2, 4 and 9, of which the mean is 5.
func TestProxiedCallsByHand(t *testing.T) {
	flow := func(service string, point balance.Point, count, retries int64) balance.Flow {
		return balance.Flow{Place: balance.Place{Service: service, Point: point, Unit: balance.Requests}, Tally: balance.Tally{Count: count, Retries: retries}}
	}
	var records []result.Record
	for _, n := range []int64{20, 40, 90} {
		records = append(records, result.Record{Treatment: "a", Valid: true, Balance: &balance.Balance{Flows: []balance.Flow{
			flow(balance.LoadName, balance.Sent, 4, 0), flow(balance.LoadName, balance.Sent, 6, 0), flow("echo", balance.InReceived, n-5, 3), flow("db", balance.InReceived, 8, 0),
		}}})
	}
	if p := pathsByTreatment(records)["a"]; p.Proxied != 5 || !p.Counted {
		t.Errorf("%+v, want 5 calls through proxies", p)
	}
}

// Each kind needs 30 changes: 60 of two kinds, each after 2 s, end after 120 s, and another 2 s show the last.
func TestSettingsForMediansByHand(t *testing.T) {
	f := &compare.File{}
	f.Changes.Kinds = make([]string, 2)
	f.Changes.Every, f.Phases.Measure = experiment.Duration(2*time.Second), experiment.Duration(10*time.Second)
	if got := changeMedians(f); got == nil || *got != (ChangeMedians{30, 60, 122}) {
		t.Errorf("%+v, want 60 changes in 122 s", got)
	}
	if f.Phases.Measure = experiment.Duration(200 * time.Second); changeMedians(f).MeasureSeconds != 200 {
		t.Error("a longer phase is kept")
	}
	if f.Changes.Count = 60; changeMedians(f) != nil {
		t.Error("60 changes have medians")
	}
}

// Three changes of version had 2, 3 and 4 new proxies, and one left a proxy behind.
func TestMovesAndExpectationsAreCounted(t *testing.T) {
	moved := func(proxies int, left ...string) result.Change {
		return result.Change{Moved: &mesh.Moved{Proxies: proxies, Left: left}}
	}
	run := &compare.Run{Plan: plan.Plan{Treatments: []plan.Treatment{{ID: "a"}, {ID: "b"}}}}
	for i, changes := range [][]result.Change{{moved(2), moved(3, "x")}, {moved(4)}} {
		run.Trials = append(run.Trials, figures.Measured{Trial: figures.Trial{ID: fmt.Sprint(i), Treatment: "a", Valid: true}})
		run.Records = append(run.Records, result.Record{Treatment: "a", Changes: changes})
	}
	if got := versionMoves(run); len(got) != 1 || got[0].Changes != 3 || got[0].Proxies != 9 || got[0].Incomplete != 1 {
		t.Errorf("%+v", got)
	}
	// The meshes of four trials, in the order of time, change twice.
	run = &compare.Run{}
	for i, name := range []string{"a", "b", "b", "a"} {
		run.Records = append(run.Records, result.Record{Factors: plan.Factors{"mesh": name}, Started: time.Unix(int64(100+i), 0)})
	}
	if meshes, changes := sequence(run); meshes != 2 || changes != 2 {
		t.Errorf("%d meshes, %d changes", meshes, changes)
	}
}

// Workloads used 0.2 cores in one trial and 0.4 and 0.1 in another: means over both.
func TestForeignCPUByHand(t *testing.T) {
	start := time.Unix(1000, 0)
	task := func(pod string, cores float64) result.TaskUsage {
		return result.TaskUsage{Task: mesh.Task{ID: "n/" + pod, Namespace: "n", Plane: metric.Foreign}, Start: result.Reading{At: start, CPU: 5e9}, End: result.Reading{At: start.Add(10 * time.Second), CPU: 5e9 + int64(cores*1e10)}}
	}
	ws := foreign(&compare.Run{Records: []result.Record{{Tasks: []result.TaskUsage{task("x", 0.2)}}, {Tasks: []result.TaskUsage{task("x", 0.4), task("y", 0.1)}}, {}}})
	if len(ws) != 1 || ws[0].Trials != 2 {
		t.Fatalf("%+v", ws)
	}
	must.Contain(t, ws[0].Message, "n/x (0.300 cores)", "n/y (0.050 cores)")
}

// Two of 100 answers have status 204, and one has 203, which is rare. 1,200 bytes in three valid trials are 4 for each of 300.
func TestReceivedByHand(t *testing.T) {
	run := &compare.Run{}
	for i := range 3 {
		run.Records = append(run.Records, result.Record{Treatment: "a", Valid: true, Load: &result.Load{Statuses: map[string]int64{"200": 97 - int64(i), "204": 2, "203": 1, "503": int64(i)}, BytesIn: 400}})
	}
	run.Records = append(run.Records, result.Record{Treatment: "a", Load: &result.Load{BytesIn: 9e9}})
	if got := receivedBy(run, "a"); !slices.Equal(got.statuses, []string{"200", "204"}) || got.bytes != 4 {
		t.Errorf("%+v", got)
	}
}

// An interval of 40 to 60 is ±10, or 20 % of an estimate of 50. The widest of all treatments counts.
func TestWidthsByHand(t *testing.T) {
	r := &Report{}
	for id, half := range map[string]float64{"a": 10, "b": 4} {
		r.Treatments = append(r.Treatments, compare.Treatment{ID: id, Metrics: map[string]compare.Estimate{metric.Rate: {Interval: *within(50-half, 50, 50+half), N: 5}}})
	}
	for _, c := range []struct {
		relative bool
		most     float64
		half     float64
		reached  bool
	}{{true, 20, 20, true}, {true, 19.9, 20, false}, {false, 10, 10, true}, {false, 9.9, 10, false}} {
		s := &Stopping{}
		if s.measure(r, experiment.Precision{Metric: metric.Rate, Relative: c.relative, Half: c.most}); s.Widest != "a" || *s.Half != c.half || s.Reached != c.reached {
			t.Errorf("%+v: %+v, ±%v", c, s, *s.Half)
		}
	}
}

// Four proxies handle three calls of a request, and the control plane configures them and two services.
func TestDividedByProxiesByHand(t *testing.T) {
	of := func(v float64) compare.Estimate {
		return compare.Estimate{Interval: *within(0.9*v, v, 1.1*v)}
	}
	data, control := string(metric.Data), string(metric.Control)
	r := &Report{Lines: []compare.Line{{Part: data, Factors: plan.Factors{}, FixedCores: *within(0.1, 0.2, 0.4)}}}
	c := r.proxyCost(compare.Treatment{Metrics: map[string]compare.Estimate{metric.Of(metric.CPUPerRequest, data): of(600), metric.Of(metric.CPUPer1000, data): of(0.6), metric.Of(metric.Memory, data): of(120),
		metric.Of(metric.IdleMemory, data): of(80), metric.Of(metric.CPUCores, control): of(0.3), metric.Of(metric.Memory, control): of(240)}}, Path{Proxies: 4, Services: 2, Proxied: 3})
	for name, x := range map[string]struct {
		got  *stats.Interval
		want float64
	}{"call": {c.CallUS, 200}, "cores": {c.Cores, 0.2}, "memory": {c.MiB, 30}, "idle memory": {c.IdleMiB, 20}, "control cores": {c.ControlCoresPerProxy, 0.075}, "control memory": {c.ControlMiBPerProxy, 60},
		"control cores of a service": {c.ControlCoresPerService, 0.15}, "control memory of a service": {c.ControlMiBPerService, 120}} {
		wants(t, name, x.got, 0.9*x.want, x.want, 1.1*x.want)
	}
	wants(t, "idle cores", c.IdleCores, 0.025, 0.05, 0.1)
}
