package predict

import (
	"math"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

func wants(t *testing.T, name string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want))) {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}

// Three deployments of 10 and 12, 14 and 16, 12 and 14: means of 11, 15 and 13, with a deviation of 2. Trials have the variance 2 in each.
func TestMeanCurveByHand(t *testing.T) {
	var points []Point
	costs := []float64{10, 12, 14, 16, 12, 14}
	inverse := 0.0
	for i, cost := range costs {
		points, inverse = append(points, Point{Block: i / 2, Cost: cost}), inverse+1/(cost*cost)
	}
	c := must.Get(Fit(points, nil, 0.95))(t)
	wants(t, "noise", c.Noise, math.Sqrt2/13)
	wants(t, "freedom", c.free, 3)
	b := must.Get(c.At())(t)
	half := 4.302652729911275 * 2 / math.Sqrt(3) // Student's t with two degrees of freedom
	wants(t, "estimate", b.Estimate, 13)
	wants(t, "low", b.Low, 13-half)
	wants(t, "high", b.High, 13+half)
	// The mean of a deployment by its two trials, as shares of cost, has noise too: a third of the points are its own.
	fit := 3 / inverse * 2 / 169
	blocks, trials := 4+4.0/3, 2-fit
	all := blocks + trials
	another := stats.StudentHalfWidth(math.Sqrt(all), all*all/(blocks*blocks/2+trials*trials/3), 0.95)
	wants(t, "low of another", b.NewLow, max(0, 13-another))
	wants(t, "high of another", b.NewHigh, 13+another)
}

// The equations x+2y = 5, x+2y+z = 8 and y+z = 5 need another order. Their solution is 1, 2 and 3.
func TestSolvedByHand(t *testing.T) {
	x, ok := solved([][]float64{{1, 2, 0, 5}, {1, 2, 1, 8}, {0, 1, 1, 5}})
	if !ok || !slices.EqualFunc(x, []float64{1, 2, 3}, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
		t.Errorf("%v, %v", x, ok)
	}
	if x, ok := solved([][]float64{{1, 2, 5}, {2, 4, 10}}); ok {
		t.Errorf("equations of one line have the solution %v", x)
	}
}

// Deviations of -1/6 and 1/6 at one place, and of -1/4 and 1/4 at another. Those of the other sidecar are as large, and of the other sign
// at the second place.
func TestCommonDeviationsByHand(t *testing.T) {
	in, out := quantity{CPU, "in"}, quantity{CPU, "out"}
	at := func(block int, place, cost float64) Point { return Point{block, []float64{place}, cost} }
	s := newSource("x", app.HTTP1)
	c := &Costs{sources: []*source{s}}
	s.points[in] = []Point{at(1, 1, 10), at(2, 1, 14), at(1, 2, 30), at(2, 2, 50)}
	for _, x := range []struct {
		out  []Point
		want float64
	}{
		{[]Point{at(1, 1, 5), at(2, 1, 7), at(1, 2, 3), at(2, 2, 5)}, 1}, {[]Point{at(1, 1, 7), at(2, 1, 5), at(1, 2, 5), at(2, 2, 3)}, 0},
		{[]Point{at(1, 1, 7), at(2, 1, 5), at(1, 2, 3), at(2, 2, 5)}, (1.0/16 - 1.0/36) / (1.0/16 + 1.0/36)}, {nil, 1},
	} {
		s.points[out] = x.out
		wants(t, "common", c.common(in, out), x.want)
	}
}

// Ten of 40 levels may be missing, and one of a few.
func TestNeededLevels(t *testing.T) {
	for levels, want := range map[int]int{3: 2, 4: 3, 7: 6, 8: 6, 12: 9, 40: 30} {
		if got := neededOf(levels); got != want {
			t.Errorf("%d of %d levels are needed, want %d", got, levels, want)
		}
	}
	for v, want := range map[float64]float64{1234: 1200, 87.6: 88, 0.08764: 0.088, 9.96: 10} {
		wants(t, "two digits", twoDigits(v), want)
	}
}

// As many rates as a form has terms determine it, so that the variance at each is one trial's, and half of it with two trials. The
// terms are shares of a cost of which a fifth is fixed: 0.2 + 0.8·50/100.
func TestDesignByHand(t *testing.T) {
	rates := []float64{100, 500, 2000}
	wants(t, "variance", worstVariance(rates, rates), 1)
	wants(t, "variance of two trials", worstVariance(slices.Concat(rates, rates), rates), 0.5)
	c := &Curve{Axes: []Axis{{To: 100}}}
	for i, want := range []float64{1 / 0.6, 0.5 / 0.6} {
		wants(t, "share", c.costShares(rateForms[0], 50)[i], want)
	}
	d, ok := BestDesign(100, 2000, Deviations{Deployment: 0.03, Trial: 0.02}, func(rates int) int { return map[int]int{4: 5}[rates] }, 0.95)
	chosen, spread := bestRates(100, 2000, 4)
	if !ok || !slices.Equal(d.Rates, chosen) || d.Blocks != 5 || spread < 0.75 { // four trials and three terms
		t.Fatalf("%+v, %v, variance %v", d, ok, spread)
	}
	variance := 0.0009 + 0.0004*spread
	const student = 2.7764451051977987 // with four degrees of freedom
	wants(t, "mean", d.Mean, student*math.Sqrt(variance/5))
	wants(t, "another", d.Another, student*math.Sqrt((variance*6+0.0004*5)/5))
}

// An F of 3/0.5 with 2 and 8 degrees of freedom has the probability (1+6·2/8)^-4 = 0.0256, and of 2/0.5 it has 1/16.
func TestLackOfFitByHand(t *testing.T) {
	for misfit, excluded := range map[float64]bool{6: true, 4: false} {
		x := fit{misfit: misfit, misfitFree: 2, pure: 4, pureFree: 8, agreed: []float64{0.01, -0.02}}
		if x.excluded() != excluded || x.most() != 0.02 {
			t.Errorf("%+v: excluded %v, up to %v", x, x.excluded(), x.most())
		}
		sd, free := x.noise()
		wants(t, "noise", sd, math.Sqrt((misfit+4)/10))
		wants(t, "freedom", free, 10)
	}
	// Two blocks of a line through 1, 2 and 3.
	c := &Curve{Axes: []Axis{{Name: "rate", From: 1, To: 3, Levels: 3}}}
	var blocks [][]Point
	for b := range 2 {
		blocks = append(blocks, []Point{{b, []float64{1}, 1}, {b, []float64{2}, 2}, {b, []float64{3}, 3}})
	}
	_, numbers := numbered(blocks)
	x := c.fitOf(form{terms: []term{func(at []float64) float64 { return 3 * at[0] }}}, blocks, numbers)
	for i := range blocks {
		wants(t, "factor", x.fits[i][0], 1)
	}
	// Three places less a term, of two blocks with three trials and a term each.
	wants(t, "freedom of misfit", x.misfitFree, 2)
	wants(t, "freedom in blocks", x.pureFree, 2*(3-1)-2)
}

// Half of what a curve with ends leaves open, and four times its misfit.
func TestGapByHand(t *testing.T) {
	c := &Curve{Axes: []Axis{{To: 1}}, misfit: 0.01}
	c.form = form{terms: []term{fixed}}
	c.fits = [][]float64{{10}, {30}}
	wants(t, "gap", c.gap([]float64{1}), 4*0.01*20)
	c.form.ends = func([]float64) (low, high []float64) { return []float64{0.9}, []float64{1.2} }
	wants(t, "gap with ends", c.gap([]float64{1}), 4*0.01*20+0.3*20/2)
	b := Band{10, 8, 12, 5, 15}
	if got := b.add(6); got != (Band{10, 2, 18, 0, 21}) {
		t.Errorf("%+v", got)
	}
	if got := b.times(3); got != (Band{30, 24, 36, 15, 45}) {
		t.Errorf("%+v", got)
	}
}

// A band of 10 up to 12, and up to 15 with another deployment: √(5²-2²) is of the deployment. Money is 20 a core and 0.5 a MiB.
func TestAmountsByHand(t *testing.T) {
	a := amountOf(Band{Estimate: 10, High: 12, NewHigh: 15})
	wants(t, "deployment", a.Causes.Deployment, math.Sqrt(21))
	wants(t, "curve", a.Causes.Curve, 2)
	wants(t, "low", a.Low, 5)
	wants(t, "high", a.High, 15)
	m := monthOf(a, Amount{Estimate: 40, Low: 30, High: 50, Causes: Causes{Curve: 6, Deployment: 8}}, Prices{Core: 20, MiB: 0.5})
	if *m != (Amount{220, 20*a.Low + 15, 20*a.High + 25, Causes{Curve: 43, Deployment: 20*a.Causes.Deployment + 4}}) {
		t.Errorf("%+v", m)
	}
	total := totalOf(Amount{Estimate: 40, Causes: Causes{Curve: 3, Deployment: 4, Range: 2}}, Amount{Estimate: 10, Causes: Causes{Curve: 2, Deployment: 5}}, 0.6, true)
	wants(t, "total", total.High-50, math.Sqrt(9+4+2*0.6*6+16+25+2*0.6*20+4))
	wants(t, "causes", Causes{1, 2, 3, 4, 5, 6}.half(), math.Sqrt(1+4+9+16+25+36))
}

// Two proxies used 0.3 and 0.5 s of CPU for 400 answers, at 100 answers a second: 0.1 cores each in the mean. A control plane of two tasks
// used both.
func TestMeasuredProxiesByHand(t *testing.T) {
	task := func(plane metric.Plane, cpu float64, mib, peak int64) result.TaskUsage {
		u := result.TaskUsage{Start: result.Reading{CPU: 1e9}, End: result.Reading{CPU: 1e9 + int64(cpu*1e9), RSS: mib << 20, Peak: peak << 20}}
		u.Plane = plane
		return u
	}
	tasks := []result.TaskUsage{task(metric.Data, 0.3, 30, 33), task(metric.Data, 0.5, 50, 40)}
	var m measured
	m.add(7, []float64{9}, 100.0/400, tasks)
	wants(t, "CPU", m.cpu[0].Cost, 0.1)
	wants(t, "memory", m.memory[0].Cost, 40)
	wants(t, "peak", m.peak, 50)
	var c controlMeasured
	c.add(&result.Record{Tasks: append(slices.Clone(tasks), task(metric.Control, 0.3, 30, 33), task(metric.Control, 0.5, 50, 40))}, 7, nil, 100.0/400)
	wants(t, "CPU of the control plane", c.cpu[0].Cost, 0.2)
	wants(t, "memory of the control plane", c.memory[0].Cost, 80)
	wants(t, "peak of the control plane", c.peak, 83)
	wants(t, "proxies", c.proxies[0], 2)
	// 3 MiB a second in 10 s of load are 180 a minute, 90 for each of two proxies.
	for i := range tasks {
		for s := range 11 {
			tasks[i].Memory = append(tasks[i].Memory, result.MemoryReading{Seconds: float64(s), RSS: int64(20+s*(i+1)) << 20})
		}
	}
	var g growths
	g.add(&result.Record{Load: &result.Load{MeasureSeconds: 10}}, []float64{9}, tasks)
	wants(t, "growth", g.places[0].perMinute[0], 90)
	wants(t, "memory of a proxy", g.places[0].memory[0], 40)
	// Levels of one of four proxies: rates and connections divide, and sizes do not.
	if got := perProxy([]string{"rate", "requestSize", "connections"}, []float64{400, 1000, 8}, 4); !slices.Equal(got, []float64{100, 1000, 2}) {
		t.Errorf("%v", got)
	}
	calls := Flow{Calls: []Call{{Edge: Edge{To: "a"}, Rate: 30}, {Edge: Edge{From: "a", To: "b"}, Rate: 60}, {Edge: Edge{From: "b", To: "c"}, Rate: 7}}}
	wants(t, "through each of three", calls.through(app.Service{Name: "a", Replicas: 3}), 30)
	wants(t, "through one", calls.through(app.Service{Name: "c"}), 7)
	if at := configuredIn(&result.Record{Tasks: tasks, Background: &result.Background{Services: 20, Asked: 5, Pushes: &result.Pushes{Proxies: 30}}}); !slices.Equal(at, []float64{32, 21, 5}) {
		t.Errorf("%v, want 32 proxies, 21 services and 5 changes", at)
	}
}

// Requests have half more than 0.102 cores and 41 MiB, in steps of 5 thousandths and of 2 MiB.
func TestRequestsByHand(t *testing.T) {
	s := &Size{CPU: Band{Estimate: 0.102}, Memory: Band{NewHigh: 41}}
	s.request(46, Sizing{Headroom: 0.5})
	n := &Need{CPU: Amount{Estimate: 0.702}, Memory: Amount{High: 41}}
	n.request(0.5, 30)
	for name, x := range map[string][2]float64{"CPU": {s.RequestCPU, 0.155}, "memory": {s.RequestMemory, 62}, "limit": {s.LimitMemory, 70},
		"CPU needed": {n.RequestCPU, 1.055}, "memory needed": {n.RequestMemory, 62}, "limit needed": {n.LimitMemory, 62}, "workers": {float64(n.Workers), 2}} {
		wants(t, name, x[0], x[1])
	}
	// Ratios are of one more: 5.2/3 is farther than 9/5.2, and 5.1/3 is nearer than 9/5.1. Lower rates come last.
	trial := func(levels ...float64) limitedTrial { return limitedTrial{levels: levels} }
	for _, c := range []struct{ want, place []float64 }{
		{[]float64{100, 2}, []float64{110, 2}}, {[]float64{100, 6}, []float64{110, 8}}, {[]float64{100, 4.2}, []float64{110, 8}}, {[]float64{100, 4.1}, []float64{110, 2}}, {[]float64{500, 2}, []float64{110, 2}},
	} {
		if got := nearest([]limitedTrial{trial(90, 6), trial(110, 2), trial(110, 8)}, c.want); !slices.Equal(got, c.place) {
			t.Errorf("%v is nearest to %v, want %v", got, c.want, c.place)
		}
	}
	i := intervalOf([]float64{8, 10, 12}, 0.95)
	wants(t, "low", *i.Low, 10-4.302652729911275*2/math.Sqrt(3))
	wants(t, "high", *i.High, 10+4.302652729911275*2/math.Sqrt(3))
}

// Up to 99.75 requests/s pass a sidecar: rates up to a tenth more, from a fourth of that on, at ratios of the cube root of 110/28. New
// connections are at most the lowest rate.
func TestRatesOfACommandByHand(t *testing.T) {
	g := decoded(t, "  - {name: front, replicas: 2, calls: [{service: back, probability: 0.5, newConnection: true, requestSize: 1000}]}\n  - {name: back, replicas: 1}\n")
	f := must.Get(g.Spread(map[string]float64{"front": 133}))(t) // 99.75 through each of two, and 66.5 through the other
	command := g.Command(f, "")
	must.Contain(t, command, "'factors.rate=[28, 44, 70, 110]'", "'factors.connectionRate=[0, 28]'", "'factors.requestSize=[1000]'")
	wants(t, "new connections", g.mostFresh(f), 66.5)
}

// A service works 2 ms and waits 3 ms, and of ten requests nine call another that works 4 ms. The median is of these.
func TestWalkByHand(t *testing.T) {
	g := decoded(t, "  - {name: front, time: 2ms, calls: [{wait: 3ms}, {service: back, probability: 0.9}]}\n  - {name: back, time: 4ms}\n")
	w := walk{g: g, index: map[string]int{"front": 0, "back": 1}, parts: map[[2]int]delay{}, entry: Call{Edge: Edge{To: "front"}, service: 0, call: -1}}
	w.draw()
	with := &Curve{Axes: []Axis{{To: 1}}}
	with.form, with.fits = form{terms: []term{fixed}}, [][]float64{{7}}
	without := &Curve{Axes: []Axis{{To: 1}}}
	without.form, without.fits = form{terms: []term{fixed}}, [][]float64{{2}}
	one := struct{ with, without part }{part{curve: with, at: []float64{1}}, part{curve: without, at: []float64{1}}}
	w.parts[[2]int{0, -1}], w.parts[[2]int{0, 1}] = delay{one, one}, delay{one, one}
	wants(t, "added", w.added(mean), 2*(7-2)) // of both calls
	if n, path := w.calls(), w.path(); n != 2 || len(w.drawn) != draws || path[0] != "front" {
		t.Errorf("%d calls, %v", n, path)
	}
	made := map[[2]int]bool{{0, 1}: true}
	wants(t, "time", w.call(0, -1, "front", made, func(part) float64 { return 0 }, nil), 2+3+4)
	wants(t, "time without a call", w.call(0, -1, "front", map[[2]int]bool{{0, 1}: false}, mean, nil), 2+3+5)
}

// A band of 1.8 to 2.4 around 2 is ±15 %. The form leaves four times 1 % of it open.
func TestNextByHand(t *testing.T) {
	c := &Curve{Axes: []Axis{{To: 100}}}
	c.form, c.fits, c.misfit = form{terms: []term{fixed}}, [][]float64{{2}}, 0.01
	sizes := []Size{{CPU: Band{Estimate: 2, Low: 1.8, High: 2.4}, Curve: c, Place: []float64{50}}, {CPU: Band{Estimate: 2, Low: 1.9, High: 2.1}, Curve: c, Place: []float64{50}}, {Proxy: ControlPlane}}
	half, gap := widest(sizes)
	wants(t, "half", half, 0.15)
	wants(t, "gap", gap, 0.04)
	for rate, want := range map[float64]bool{76: false, 77: true} { // 30 % more than 77 is 100.1
		if got := beyond(sizes[:1], Sizing{Rate: rate, Headroom: 0.3}); got != want {
			t.Errorf("%v/s with headroom is beyond 100: %v", rate, got)
		}
	}
}
