package answer

import (
	"math"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/base/check"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

func within(low, estimate, high float64) *stats.Interval {
	return &stats.Interval{Estimate: estimate, Low: &low, High: &high}
}

func wants(t *testing.T, name string, got *stats.Interval, low, estimate, high float64) {
	t.Helper()
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }
	if got == nil || !got.Known() || !near(*got.Low, low) || !near(got.Estimate, estimate) || !near(*got.High, high) {
		t.Errorf("%s is %+v, want %v (%v to %v)", name, got, estimate, low, high)
	}
}

// A data plane of 0.8 cores for 1000 requests/s and 600 MiB, measured at 250/s with three pods and 0.3 cores.
func TestUnitCostByHand(t *testing.T) {
	of := func(i *stats.Interval) compare.Estimate { return compare.Estimate{Interval: *i} }
	r := &Report{}
	u, ok := r.unitCost(compare.Treatment{ID: "mesh", Baseline: "none", Metrics: map[string]compare.Estimate{
		metric.Rate: {Interval: stats.Interval{Estimate: 250}}, metric.CPUPer1000 + "/data": of(within(0.7, 0.8, 1)),
		metric.Memory + "/data": of(within(570, 600, 660)), metric.CPUCores + "/data": of(within(0.27, 0.3, 0.36)),
	}}, DataPlaneBill, 3)
	if !ok || u.Rate != 250 {
		t.Fatalf("%+v", u)
	}
	wants(t, "cores", u.Cores, 0.7, 0.8, 1)
	wants(t, "GiB", u.GiB, 570*4/1024.0, 600*4/1024.0, 660*4/1024.0) // four times 250/s
	wants(t, "cores of a pod", u.PodCores, 0.09, 0.1, 0.12)
	wants(t, "GiB of a pod", u.PodGiB, 190/1024.0, 200/1024.0, 220/1024.0)

	p := Prices{Core: Price{Month: 40}, GiB: &Price{Month: 5}}
	// 5000 requests/s are five thousands: 4 cores and 11.72 GiB. The ends add up.
	s := r.scenario(Scenario{Rate: 5000}, u, p)
	wants(t, "cores of 5000/s", s.Cores, 3.5, 4, 5)
	wants(t, "GiB of 5000/s", s.GiB, 20*570/1024.0, 20*600/1024.0, 20*660/1024.0)
	wants(t, "money of 5000/s", s.Money, 3.5*40+5*20*570/1024.0, 4*40+5*20*600/1024.0, 5*40+5*20*660/1024.0)
	// Twelve pods are four copies of the setup, each at the measured 250/s.
	s = r.scenario(Scenario{Rate: 1000, Pods: 12}, u, p)
	wants(t, "cores of 12 pods", s.Cores, 0.7, 0.8, 1)
	wants(t, "GiB of 12 pods", s.GiB, 12*190/1024.0, 12*200/1024.0, 12*220/1024.0)
	// Memory that is the same in every trial has no interval.
	wants(t, "money with constant memory", p.money(within(1, 2, 4), &stats.Interval{Estimate: 8}), 40+40, 80+40, 160+40)
	if m := p.MonthOf(3, 2048); m != 3*40+2*5 {
		t.Errorf("3 cores and 2 GiB cost %v, want 130", m)
	}
	// 1 % beside the measured rate is as measured, and beyond it needs a line.
	for rate, measured := range map[float64]bool{247.5: true, 247.4: false, 252.5: true, 252.6: false} {
		r.Treatments = []compare.Treatment{{ID: "mesh"}}
		if i, how := r.coresAt(u, rate); (how == "at the measured 250/s") != measured || measured && math.Abs(i.Estimate-0.8*rate/1000) > 1e-12 {
			t.Errorf("%v/s: %v, %s", rate, i, how)
		}
	}
}

// The copy at 101/s is measured at 100/s of the same factors, and the one at 102/s is not.
func TestMeasuredAtTheLimit(t *testing.T) {
	of := func(rate float64) UnitCost {
		return UnitCost{Treatment: "t", Factors: plan.Factors{"mesh": "a", "rate": rate}, Rate: rate, Pods: 2}
	}
	units := []UnitCost{of(50), of(100)}
	for rate, want := range map[float64]float64{101 * 3: 100, 102 * 3: 50, 99 * 3: 100, 98 * 3: 50} {
		if got := measuredAt(units, units[0], Scenario{Rate: rate, Pods: 6}); got.Rate != want { // six pods are three copies
			t.Errorf("%v/s on six pods: measured at %v/s, want %v", rate, got.Rate, want)
		}
	}
}

// Two deployments keep the error of their series, as squares over their number. Three have an interval of their own.
func TestTrendsByHand(t *testing.T) {
	one := figures.Trend{Points: [][2]float64{{0, 10}, {1, 30}}, PerHour: *within(7, 10, 13)}
	two := figures.Trend{Points: [][2]float64{{0, 20}, {1, 60}}, PerHour: *within(16, 20, 24)}
	x := trendOf([]figures.Trend{one, two}, 0.95)
	wants(t, "slope", &x.PerHour, 12.5, 15, 17.5) // √(3²+4²)/2
	if !x.Within || x.Deployments != 2 || x.First != 15 || x.Last != 45 {
		t.Errorf("%+v", x)
	}
	x = trendOf([]figures.Trend{one, two, {Points: [][2]float64{{0, 30}, {1, 30}}, PerHour: stats.Interval{Estimate: 12}}}, 0.95)
	half := 4.302653 * math.Sqrt(28.0/3) // mean 14, deviations -4, 6 and -2: variance 28, and t with 2 degrees of freedom
	if math.Abs(*x.PerHour.Low-14+half) > 1e-4 || math.Abs(*x.PerHour.High-14-half) > 1e-4 || x.Within || x.First != 20 || x.Last != 40 {
		t.Errorf("%+v: %v to %v, want 14 ±%v", x, *x.PerHour.Low, *x.PerHour.High, half)
	}
	// 60 to 180 MiB an hour are 1 to 3 a minute. Requests had 10 for each 2 a minute.
	grows := Trend{Metric: metric.Of(metric.Memory, "data"), PerHour: *within(60, 120, 180)}
	minute, request := metric.Of(metric.MemoryGrowth, "data"), metric.Of(metric.MemoryGrowthPerRequest, "data")
	of := map[string]compare.Estimate{minute: {Interval: stats.Interval{Estimate: 2}}, request: {Interval: stats.Interval{Estimate: 10}}}
	grows.fill(of)
	wants(t, "growth", &stats.Interval{Estimate: of[minute].Estimate, Low: of[minute].Low, High: of[minute].High}, 1, 2, 3)
	wants(t, "growth by request", &stats.Interval{Estimate: of[request].Estimate, Low: of[request].Low, High: of[request].High}, 5, 10, 15)
}

// Half of an hour counts, and 2 % of a level of 100 are visible: 4 an hour.
func TestTrendVerdictAtTheLimit(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      TrendVerdict
	}{{4, 5, Growing}, {0.1, 1, Growing}, {-5, -0.1, Falling}, {0, 1, Steady}, {4.0005, 5, StillGrowing}, {-5, -4, Falling}, {-5, -4.1, StillFalling}, {-4, 4, Steady}, {-4.1, 4, NoTrendShown}, {-4, 4.1, NoTrendShown}} {
		for _, level := range []float64{100, -100} {
			if got := trendVerdict(*within(c.low, c.low, c.high), level, 3600); got != c.want {
				t.Errorf("%v to %v of %v: %s, want %s", c.low, c.high, level, got, c.want)
			}
		}
	}
}

// Three calls pass the sidecars of both ends, that of the load too if it has one.
func TestPathByHand(t *testing.T) {
	task := func(id string, plane metric.Plane) result.TaskUsage {
		return result.TaskUsage{Task: mesh.Task{ID: id, Pod: id, Plane: plane, Role: map[metric.Plane]string{metric.Data: "sidecar"}[plane]}}
	}
	tasks := []result.TaskUsage{task("a", metric.App), task("b", metric.App), task("a", metric.Data), task("b", metric.Data)}
	if p := pathOf(&result.Record{Edges: 3, Tasks: tasks}); p.Proxied != 5 || p.Proxies != 2 || p.Services != 2 {
		t.Errorf("%+v, want 5 calls through proxies", p)
	}
	if p := pathOf(&result.Record{Edges: 3, Tasks: append(slices.Clone(tasks), task("load", metric.Data))}); p.Proxied != 6 {
		t.Errorf("%+v, want 6 calls through proxies", p)
	}
}

// The median of 600 times is the 300th: the bucket that has it, not the next. The 99 % quantile is the 594th.
func TestBoundsOfQuantilesAtTheLimit(t *testing.T) {
	within := map[float64]int64{0.1: 300, 0.5: 294, 2: 6}
	for q, want := range map[float64][2]float64{0.5: {0, 100}, 0.501: {100, 500}, 0.99: {100, 500}, 0.991: {500, 2000}} {
		if b := boundsOf(within, 600, q); b.FromMS != want[0] || *b.ToMS != want[1] {
			t.Errorf("%v: %v to %v ms, want %v", q, b.FromMS, *b.ToMS, want)
		}
	}
	// Of 700 times, 100 are above all buckets.
	if b := boundsOf(within, 700, 0.99); b.FromMS != 2000 || b.ToMS != nil {
		t.Errorf("%+v, want more than 2 s", b)
	}
}

// Means are over the trials with all parts, 12 and 16 of 20 and 30 ms. The third has only one.
func TestPartsOverByHand(t *testing.T) {
	part := func(name string, ms float64) figures.ChangePart { return figures.ChangePart{Name: name, MS: ms} }
	p := partsOver([]figures.ChangeParts{
		{Changes: 3, LeftOut: 1, WholeMS: 20, ResolutionMS: 2, Parts: []figures.ChangePart{part("a", 12), part("b", 8)}},
		{Changes: 5, LeftOut: 2, WholeMS: 30, ResolutionMS: 5, Parts: []figures.ChangePart{part("a", 16), part("b", 14)}},
		{Changes: 9, LeftOut: 4, WholeMS: 99, ResolutionMS: 99, Parts: []figures.ChangePart{part("a + b", 99)}},
	}, 0.95)
	if p.Changes != 8 || p.LeftOut != 7 || p.ResolutionMS != 3.5 || p.Whole.Estimate != 25 || len(p.Parts) != 2 || p.Parts[0].MS.Estimate != 14 || p.Parts[1].MS.Estimate != 11 {
		t.Errorf("%+v", p)
	}
}

// Headers of proxies may add 512 bytes and a tenth of the smaller answer: 612 to 1,000 bytes.
func TestOtherAnswersAtTheLimit(t *testing.T) {
	of := func(bytes float64) received {
		return received{probed: []check.Answer{{Request: "GET /", Status: "200", Bytes: new(int64(7))}}, bytes: bytes}
	}
	for bytes, other := range map[float64]bool{1612: false, 1613: true} {
		for _, sides := range [][2]received{{of(1000), of(bytes)}, {of(bytes), of(1000)}} {
			if got := otherWork(sides[0], sides[1]); (got != "") != other {
				t.Errorf("%v and %v bytes: %q", sides[0].bytes, sides[1].bytes, got)
			}
		}
	}
}

func TestExpectationsAreCounted(t *testing.T) {
	var e Expectation
	for _, o := range []expect.Outcome{{OK: true, Value: new(3.0)}, {OK: true, AtMost: new(4.0)}, {Undecided: true, Detail: "unclear"}, {Detail: "later"}} {
		e.add(o, "t1")
	}
	if e.N != 4 || e.Held != 2 || e.Undecided != 1 || !slices.Equal(e.Values, []float64{3, 4}) || e.Detail != "unclear (t1)" {
		t.Errorf("%+v", e)
	}
}
