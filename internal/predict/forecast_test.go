package predict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/statstest"
)

// machine makes costs with known true values. Deployments deviate by 5 %, trials by 4 %. A share of both variances is
// common to all sidecars of a trial.
type machine struct {
	r      *rand.Rand
	common float64
}

// levels are the deviations of n sidecars that run at once.
func (m machine) levels(n int, sd float64) (all []float64) {
	z := m.r.NormFloat64()
	for range n {
		all = append(all, 1+sd*(math.Sqrt(m.common)*z+math.Sqrt(1-m.common)*m.r.NormFloat64()))
	}
	return all
}

// trueCPU is the CPU of a sidecar with inbound and outbound calls, and bytes of both a second.
func trueCPU(in, out, bytes float64) float64 {
	return 0.003 + 0.00015*in + 0.00017*out + 0.0008*math.Sqrt(in+out) + 1e-9*bytes
}

// trueMemory is the memory of a sidecar with calls of one direction, or of both and services that it calls.
func trueMemory(rate float64, called int) float64 { return 60 + 0.002*rate + 0.3*float64(called) }

// trueTime is a response time of a call with a median of z = 0, in ms. Times are skewed. Each of two sidecars takes longer
// the fewer requests it has.
func trueTime(mesh bool, size, z float64, rates [2]float64) float64 {
	if mesh {
		return 0.3 + 0.5 - 0.25*math.Sqrt(rates[0]/2000) - 0.25*math.Sqrt(rates[1]/2000) + (0.6+3e-6*size)*math.Exp(0.8*z)
	}
	return 0.1 + (0.1+1e-6*size)*math.Exp(0.6*z)
}

// trueTimes are the times of a trial, of which all are equally likely.
func trueTimes(mesh bool, size, level, rate float64) (times []float64) {
	for i := range atOnce {
		times = append(times, level*trueTime(mesh, size, normal[i], [2]float64{rate, rate}))
	}
	return times
}

// normal are quantiles of the normal distribution, at equal steps of probability.
var normal = func() (z [atOnce]float64) {
	for i := range z {
		z[i] = math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/atOnce-1)
	}
	return z
}()

// measured are the costs of a run at four rates and three sizes of responses.
func (m machine) measured(blocks int) *Costs {
	s := &source{dir: "runs/curve", protocol: app.HTTP1, points: map[quantity][]Point{}, curves: map[quantity]*Curve{}, missing: map[quantity]error{}}
	for b := range blocks {
		deployed := m.levels(2, 0.05)
		for _, rate := range []float64{20, 100, 400, 2000} {
			for _, size := range []float64{100, 10e3, 100e3} {
				trial := m.levels(2, 0.04)
				at := []float64{rate, 0, size, 0, 8}
				in, out := deployed[0]*trial[0], deployed[1]*trial[1]
				s.pairs = append(s.pairs, pair{b, at, trueTimes(true, size, in, rate), trueTimes(false, size, 1+0.04*m.r.NormFloat64(), rate)})
				for q, cost := range map[quantity]float64{
					inboundCPU: in * trueCPU(rate, 0, rate*size), outboundCPU: out * trueCPU(0, rate, rate*size),
					inboundMemory: in * trueMemory(rate, 0), outboundMemory: out * trueMemory(rate, 0),
				} {
					s.points[q] = append(s.points[q], Point{b, at, cost})
				}
			}
		}
	}
	s.fit(0.95)
	return &Costs{Mesh: "envoy", confidence: 0.95, sources: []*source{s}, called: []*source{m.callers(blocks)}, control: &controlPlane{}}
}

// callers are the memory of sidecars of services that call others.
func (m machine) callers(blocks int) *source {
	s := newSource("runs/callers", app.HTTP1)
	for b := range blocks {
		numbers := []int{0, 1, 3, 11}
		deployed, trial := m.levels(len(numbers), 0.05), m.levels(len(numbers), 0.04)
		for i, n := range numbers {
			s.points[calledMemory] = append(s.points[calledMemory], Point{b, []float64{float64(n)}, deployed[i] * trial[i] * trueMemory(10, n)})
		}
	}
	s.fitCalled(0.95)
	return s
}

// graph is a random application: a chain, a tree or a fan-out.
func (m machine) graph() Graph {
	n := 2 + m.r.IntN(11)
	shape := m.r.IntN(3)
	g := Graph{Topology: app.Topology{Name: "drawn", Entry: "s0"}}
	for i := range n {
		g.Services = append(g.Services, app.Service{Name: fmt.Sprint("s", i), Behavior: app.Behavior{ResponseSize: app.FixedSize(int64(100 * math.Pow(1000, m.r.Float64())))}})
		if i == 0 {
			continue
		}
		parent := []int{i - 1, m.r.IntN(i), 0}[shape]
		c := app.Call{Service: fmt.Sprint("s", i)}
		c.Alongside = len(g.Services[parent].Calls) > 0 && m.r.IntN(2) == 0
		g.Services[parent].Calls = append(g.Services[parent].Calls, c)
	}
	return g
}

// truth returns the true costs of a new deployment of a graph: of each service, and the added latency.
func (m machine) truth(g Graph, flow Flow) (cpu, memory []float64, delay float64) {
	deployed, trial := m.levels(len(g.Services), 0.05), m.levels(len(g.Services), 0.04)
	sizes, rates := map[string]float64{}, map[string]float64{}
	for _, s := range g.Services {
		sizes[s.Name] = s.ResponseSize.Mean()
	}
	for _, c := range flow.Calls {
		rates[c.To] += c.Rate
		rates[c.From] += c.Rate
	}
	for i, s := range g.Services {
		var in, out, bytes float64
		for _, c := range flow.Calls {
			if c.To == s.Name {
				in += c.Rate
			} else if c.From == s.Name {
				out += c.Rate
			} else {
				continue
			}
			bytes += c.Rate * sizes[c.To]
		}
		level := deployed[i] * trial[i]
		cpu, memory = append(cpu, level*trueCPU(in, out, bytes)), append(memory, level*trueMemory(in+out, len(s.Calls)))
	}
	if slices.ContainsFunc(g.Services, func(s app.Service) bool {
		return slices.ContainsFunc(s.Calls, func(c app.Call) bool { return c.Alongside })
	}) {
		return cpu, memory, math.NaN()
	}
	median := func(mesh bool) float64 {
		sums := make([]float64, 3000)
		for i := range sums {
			for _, c := range flow.Calls { // each service is called once
				sums[i] += trueTime(mesh, sizes[c.To], m.r.NormFloat64(), [2]float64{rates[c.From], rates[c.To]})
			}
		}
		slices.Sort(sums)
		return sums[len(sums)/2]
	}
	return cpu, memory, deployed[0]*trial[0]*median(true) - (1+0.04*m.r.NormFloat64())*median(false)
}

// Forecasts of random applications hold what a new deployment costs in 90 to 98 % of cases, however much of the deviation
// is common to sidecars.
func TestForecastsHoldNewDeployments(t *testing.T) {
	const all = 1000
	rounds := statstest.Rounds(t, 50, all)
	held, n := map[string]int{}, map[string]int{}
	check := func(what string, a Amount, truth float64) {
		n[what]++
		if truth >= a.Low && truth <= a.High {
			held[what]++
		}
	}
	for k, common := range []float64{0, 0.5, 1} {
		m := machine{rand.New(rand.NewPCG(1, uint64(k))), common}
		for range rounds {
			costs, g := m.measured(8), m.graph()
			rates := map[string]float64{"s0": 30 + 120*m.r.Float64()}
			f := must.Get(Forecasts([]*Costs{costs}, g, rates, nil))(t)[0]
			cpu, memory, delay := m.truth(g, must.Get(g.Spread(rates))(t))
			var sumCPU, sumMemory float64
			for i := range cpu {
				check("CPU of a service", f.Services[i].CPU, cpu[i])
				check("memory of a service", f.Services[i].Memory, memory[i])
				sumCPU, sumMemory = sumCPU+cpu[i], sumMemory+memory[i]
			}
			check(fmt.Sprintf("CPU, %.1f common", common), f.CPU, sumCPU)
			check(fmt.Sprintf("memory, %.1f common", common), f.Memory, sumMemory)
			switch refused := strings.Contains(f.NoLatency, "at the same time"); {
			case f.Latency != nil:
				check("latency", *f.Latency, delay)
			case !refused:
				t.Fatalf("no latency: %s", f.NoLatency)
			}
		}
	}
	for what, made := range n {
		share, slack := float64(held[what])/float64(made), 0.0
		if rounds < all {
			slack = 0.06
		}
		t.Logf("%s: %.3f of %d", what, share, made)
		if share < 0.90-slack || share > 0.98+slack {
			t.Errorf("%s: the range holds %.3f of %d new deployments, want 0.90 to 0.98", what, share, made)
		}
	}
}

// A service that works off messages, or by itself, has a sidecar that only sends.
func TestForecastsOfMessagesAndJobs(t *testing.T) {
	m := machine{rand.New(rand.NewPCG(7, 7)), 0}
	costs := m.measured(8)
	service := func(name string, calls ...string) app.Service {
		s := app.Service{Name: name, Behavior: app.Behavior{ResponseSize: app.FixedSize(10e3)}}
		for _, to := range calls {
			s.Calls = append(s.Calls, app.Call{Service: to})
		}
		return s
	}
	queue := Graph{Topology: app.Topology{Name: "queue", Entry: "order"}, Messages: map[Edge]float64{{From: "order", To: "worker"}: 1}}
	queue.Services = []app.Service{service("order"), service("worker", "stock"), service("stock")}
	cron := Graph{Topology: app.Topology{Name: "cron", Entry: "cron"}, Jobs: map[string]bool{"cron": true}}
	cron.Services = []app.Service{service("cron", "stock"), service("stock")}
	received, sent := trueCPU(100, 0, 100*10e3), trueCPU(0, 100, 100*10e3)
	for _, test := range []struct {
		g    Graph
		want []float64
	}{{queue, []float64{received, sent, received}}, {cron, []float64{sent, received}}} {
		f := must.Get(Forecasts([]*Costs{costs}, test.g, map[string]float64{test.g.Entry: 100}, nil))(t)[0]
		if len(f.Services) != len(test.want) {
			t.Fatalf("%s: %d services", test.g.Name, len(f.Services))
		}
		var all float64
		for i, want := range test.want {
			if got := f.Services[i].CPU.Estimate; math.Abs(got-want) > 0.1*want {
				t.Errorf("%s: %s needs %.4f cores, want %.4f", test.g.Name, test.g.Services[i].Name, got, want)
			}
			all += want
		}
		if math.Abs(f.CPU.Estimate-all) > 0.1*all {
			t.Errorf("%s: %.4f cores, want %.4f", test.g.Name, f.CPU.Estimate, all)
		}
	}
}

// decoded is a graph with services.
func decoded(t *testing.T, text string) Graph {
	t.Helper()
	return Graph{Topology: must.Get(app.Decode("graph.yaml", []byte("name: t\nservices:\n"+text)))(t)}
}

func TestRatesSpreadOverCalls(t *testing.T) {
	g := decoded(t, `
  - name: front
    errors: {ratio: 0.1}
    calls: [{service: a, probability: 0.5}, {service: a}, {service: b, requestSize: 100}]
  - name: a
    protocol: grpc
    calls: [{wait: 5ms}, b]
  - {name: b, responseSize: "uniform(1KiB, 3KiB)", rateLimit: 150, calls: [c]}
  - name: c
  - name: idle
`)
	f := must.Get(g.Spread(map[string]float64{"front": 100, "b": 20}))(t)
	for name, want := range map[string]float64{"front": 100, "a": 135, "b": 20 + 90 + 135, "c": 150, "idle": 0} {
		if got := f.Rates[name]; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s receives %v requests/s, want %v", name, got, want)
		}
	}
	for _, c := range f.Calls {
		if c.To == "a" && c.Protocol != app.GRPC || c.To == "b" && c.Response != 2048 || c.From == "front" && c.To == "b" && c.Request != 100 {
			t.Errorf("call %+v: want gRPC to a, and 100 bytes to b with 2048 bytes back", c)
		}
	}
	must.Fail(t, must.Err(g.Spread(map[string]float64{"fron": 1})), "no service", "a service that the graph does not have")
}

// An uncertain count of calls is a cause of its own, and services below the measured rates have a wide range.
func TestCausesOfRanges(t *testing.T) {
	m := machine{rand.New(rand.NewPCG(3, 4)), 0.5}
	costs := m.measured(8)
	g := decoded(t, "  - {name: front, calls: [{service: a, probability: 0.5}, {service: rare, probability: 0.05}]}\n  - name: a\n  - name: rare\n")
	rates := map[string]float64{"front": 100}
	exact := must.Get(Forecasts([]*Costs{costs}, g, rates, &Prices{Core: 20, MiB: 0.002}))(t)[0]
	g.Counted = map[Edge]float64{{"front", "a"}: 0.1}
	counted := must.Get(Forecasts([]*Costs{costs}, g, rates, nil))(t)[0]
	if exact.CPU.Causes.Graph != 0 || !(counted.CPU.Causes.Graph > 0) || !(counted.CPU.High > exact.CPU.High) || math.Abs(counted.CPU.Estimate-exact.CPU.Estimate) > 1e-9 {
		t.Errorf("CPU %+v with counted calls, %+v without: want a wider range around the same estimate", counted.CPU, exact.CPU)
	}
	rare := exact.Services[2].CPU
	if !(rare.Causes.Range > 0) || rare.Low > trueCPU(5, 0, 5*1024) || rare.High < trueCPU(5, 0, 5*1024) {
		t.Errorf("5 requests/s, below the measured 20, have %+v, want a range with %v", rare, trueCPU(5, 0, 5*1024))
	}
	if want := 20*exact.CPU.Estimate + 0.002*exact.Memory.Estimate; math.Abs(exact.Month.Estimate-want) > 1e-9 {
		t.Errorf("a month costs %v, want %v", exact.Month.Estimate, want)
	}
}

// A graph does not have the connections: its memory is in the middle of those at the fewest and at the most measured ones, and
// the difference is a cause of its range. Nothing else depends on them here.
func TestUnknownConnectionsWidenRanges(t *testing.T) {
	const each = 0.05 // MiB of a connection
	m := machine{rand.New(rand.NewPCG(9, 10)), 1}
	costs := m.measured(8)
	s := costs.sources[0]
	for q, points := range s.points {
		for _, p := range slices.Clone(points) {
			p.At = slices.Clone(p.At)
			p.At[connectionsAxis] = 28
			if q == inboundMemory || q == outboundMemory {
				p.Cost += 20 * each
			}
			s.points[q] = append(s.points[q], p)
		}
	}
	g := decoded(t, "  - {name: front, calls: [{service: back}]}\n  - name: back\n")
	forecast := func() Forecast {
		return must.Get(Forecasts([]*Costs{costs}, g, map[string]float64{"front": 100}, nil))(t)[0]
	}
	few := forecast()
	s.fit(0.95)
	unknown := forecast()
	if more, want := unknown.Memory.Estimate-few.Memory.Estimate, 3*10*each; few.Memory.Causes.Connections != 0 || math.Abs(more/want-1) > 0.1 {
		t.Errorf("two sidecars with three calls on 8 to 28 connections each have %v MiB more than with 8, want %v", more, want)
	}
	if got, want := unknown.Memory.Causes.Connections, 3*10*each; math.Abs(got/want-1) > 0.1 || !(unknown.Memory.High-unknown.Memory.Low > 2*got) {
		t.Errorf("connections widen the range of memory by %v MiB, want %v: %+v", got, want, unknown.Memory)
	}
	if more := unknown.CPU.Estimate/few.CPU.Estimate - 1; math.Abs(more) > 0.01 {
		t.Errorf("CPU is %v more at other connections", more)
	}
}

// Calls on new connections cost more by the curve's cost of a connection, in the sidecar of their caller.
func TestNewConnectionsCost(t *testing.T) {
	const each = 0.0002 // CPU seconds of a connection
	m := machine{rand.New(rand.NewPCG(7, 8)), 1}
	costs := m.measured(8)
	s := costs.sources[0]
	for q, points := range s.points {
		for _, p := range slices.Clone(points) {
			p.At = slices.Clone(p.At)
			p.At[3] = 20 // connections/s, as many as requests at the lowest rate
			if q == outboundCPU {
				p.Cost += 20 * each
			}
			s.points[q] = append(s.points[q], p)
		}
	}
	for _, p := range s.pairs {
		p.at = []float64{p.at[0], 0, p.at[2], 20, 8}
		s.pairs = append(s.pairs, p)
	}
	s.fit(0.95)
	graph := func(fresh string) Forecast {
		g := decoded(t, "  - {name: front, calls: [{service: back, probability: 0.2"+fresh+"}]}\n  - name: back\n")
		return must.Get(Forecasts([]*Costs{costs}, g, map[string]float64{"front": 30}, nil))(t)[0]
	}
	kept, fresh := graph(""), graph(", newConnection: true")
	if more, want := fresh.Services[0].CPU.Estimate-kept.Services[0].CPU.Estimate, 6*each; math.Abs(more/want-1) > 0.2 {
		t.Errorf("6 new connections/s cost %v cores more, want %v", more, want)
	}
	if more := fresh.Services[1].CPU.Estimate/kept.Services[1].CPU.Estimate - 1; math.Abs(more) > 0.02 {
		t.Errorf("the sidecar of the callee has %.3f more CPU, want the same: sidecars keep their connections", more)
	}
}

// The median of a sum of skewed times is more than the sum of their medians, by the formula of the exponential distribution.
func TestMediansOfSums(t *testing.T) {
	var times []float64
	for i := range atOnce {
		times = append(times, -math.Log(1-(float64(i)+0.5)/atOnce))
	}
	for n, want := range map[int]float64{1: math.Ln2, 2: 1.678, 5: 4.671, 12: 11.668} { // medians of gamma distributions
		if got := mediansOfSums(n)(times); math.Abs(got/want-1) > 0.03 {
			t.Errorf("the median of the sum of %d exponential times is %v, want %v", n, got, want)
		}
	}
}

// A total ranges as sums of draws do. Deviations of proxies and their control plane share a part of their variance, and curves are
// from the same deployments or not. The other causes are of the proxies alone.
func TestTotalsHoldSums(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	proxies := Amount{Estimate: 40, Low: 30, High: 50, Causes: Causes{Curve: 3, Deployment: 4, Graph: 1, Range: 2, Connections: 0.5, Called: 0.7}}
	control := Amount{Estimate: 10, Low: 4, High: 16, Causes: Causes{Curve: 2, Deployment: 5}}
	for _, common := range []float64{0, 0.6, 1} {
		for _, sameRun := range []bool{true, false} {
			const n = 200_000
			var squares float64
			for range n {
				both, curve := r.NormFloat64(), r.NormFloat64()
				draw := func(shared, half float64) float64 {
					return half * (math.Sqrt(common)*shared + math.Sqrt(1-common)*r.NormFloat64())
				}
				sum := draw(both, 4) + draw(both, 5)
				if sameRun {
					sum += draw(curve, 3) + draw(curve, 2)
				} else {
					sum += 3*r.NormFloat64() + 2*r.NormFloat64()
				}
				for _, half := range []float64{1, 2, 0.5, 0.7} {
					sum += half * r.NormFloat64()
				}
				squares += sum * sum
			}
			want := math.Sqrt(squares / n)
			if got := totalOf(proxies, control, common, sameRun); got.Estimate != 50 || math.Abs(got.High-50-want) > 0.02*want || math.Abs(50-got.Low-want) > 0.02*want {
				t.Errorf("common %v, same run %v: %+v, want 50 ± %v", common, sameRun, got, want)
			}
		}
	}
	control.Causes.Deployment = 200
	if got := totalOf(proxies, control, 1, true); got.Low != 0 {
		t.Errorf("money from %v", got.Low)
	}
}

func TestForecastsRefuse(t *testing.T) {
	m := machine{rand.New(rand.NewPCG(5, 6)), 1}
	costs := m.measured(8)
	queue := m.measured(8)
	s := queue.sources[0]
	for i, p := range s.pairs {
		for j := range p.with {
			s.pairs[i].with[j] *= 1 + math.Pow(p.at[0]/800, 2)
		}
	}
	chain := "  - {name: front, calls: [back]}\n  - name: back\n"
	grpc := m.measured(8)
	grpc.sources[0].protocol = app.GRPC
	both := must.Get(Forecasts([]*Costs{costs, grpc}, decoded(t, chain), map[string]float64{"front": 100}, nil))(t)
	if both[0].Refused != "" || both[0].Latency == nil || !strings.Contains(both[1].Refused, "calls by http1 were not measured") {
		t.Errorf("refused: %q and %q, want the mesh measured by gRPC alone", both[0].Refused, both[1].Refused)
	}
	grpc.sources[0].missing[withMesh(1)] = fmt.Errorf("the run has no latency")
	if f := must.Get(Forecasts([]*Costs{grpc}, decoded(t, chain+"    protocol: grpc\n"+"    "), map[string]float64{"back": 100}, nil))(t)[0]; !f.Unmeasured || f.NoLatency != "calls to back: the run has no latency" {
		t.Errorf("no latency: %q, unmeasured %v", f.NoLatency, f.Unmeasured)
	}
	for name, c := range map[string]struct {
		costs *Costs
		graph string
		rates map[string]float64
		want  string // in the error
		no    string // in the reason for no latency
	}{
		"rate above":      {costs, chain, map[string]float64{"front": 1500}, "graph.yaml:7: 3000 requests/s are outside the measured range of 20 to 2000: sidecar of front (requests received and sent)", ""},
		"rates above":     {costs, chain, map[string]float64{"front": 2500}, "graph.yaml:7: 2500 to 5000 requests/s are outside the measured range of 20 to 2000: sidecar of front, sidecar of back (requests received and sent)", ""},
		"size outside":    {costs, chain + "    responseSize: 1MiB\n", map[string]float64{"front": 50}, "responseSize 1MiB was not measured, only 100 to 100000: calls from front to back", ""},
		"protocol":        {costs, chain + "    protocol: grpc\n", map[string]float64{"front": 50}, "calls by grpc were not measured, only by http1: calls from front to back", ""},
		"queues":          {queue, chain, map[string]float64{"front": 900}, "", "where requests queue"},
		"no queues":       {queue, chain, map[string]float64{"front": 100}, "", ""},
		"new connections": {costs, "  - {name: front, calls: [{service: back, newConnection: true}]}\n  - name: back\n", map[string]float64{"front": 50}, "connectionRate 50 was not measured, only 0: calls from front to back", ""},
		"alongside":       {costs, "  - {name: front, calls: [back, {service: back, alongside: true}]}\n  - name: back\n", map[string]float64{"front": 50}, "", "at the same time wait for one another"},
		"several entries": {costs, chain, map[string]float64{"front": 50, "back": 50}, "", "several services are called from outside"},
	} {
		g := decoded(t, c.graph)
		g.Where = func(int, int) string { return "graph.yaml:7" }
		all, err := Forecasts([]*Costs{c.costs}, g, c.rates, nil)
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			} else if command := hint.Of(err); !strings.Contains(command, "tare run runs/curve/experiment.yaml --set 'factors.rate=[") {
				t.Errorf("%s: the hint %q has no command that measures", name, command)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !strings.Contains(all[0].NoLatency, c.no) || (c.no == "") != (all[0].Latency != nil):
			t.Errorf("%s: latency %+v, reason %q, want %q", name, all[0].Latency, all[0].NoLatency, c.no)
		}
	}
}

// The memory of called services comes from a run with services that call others, or else assumed, with a cause of its own: all
// of what no run has.
func TestMemoryOfCalledServices(t *testing.T) {
	m := machine{rand.New(rand.NewPCG(11, 12)), 1}
	costs := m.measured(8)
	g := decoded(t, "  - {name: front, replicas: 2, calls: [a, b, b, c]}\n  - name: a\n  - name: b\n  - name: c\n")
	forecast := func() Forecast {
		return must.Get(Forecasts([]*Costs{costs}, g, map[string]float64{"front": 100}, nil))(t)[0]
	}
	measured, points := forecast(), costs.called[0].points[calledMemory]
	costs.called = nil
	assumed := forecast()
	const calls = 2 * 3 // of both replicas
	if c := assumed.Memory.Causes.Called; measured.Memory.Causes.Called != 0 || math.Abs(c-calls*AssumedCalled) > 1e-9 || math.Abs(assumed.Services[0].Memory.Causes.Called-c) > 1e-9 || assumed.CPU.Causes.Called != 0 {
		t.Errorf("assumed called services widen memory by %v MiB, measured ones by %v, want %v and 0", c, measured.Memory.Causes.Called, calls*AssumedCalled)
	}
	if more := assumed.Memory.Estimate - measured.Memory.Estimate; math.Abs(more) > 1.2 { // both are 0.3 MiB each
		t.Errorf("assumed memory is %v MiB more than measured", more)
	}
	if from := measured.From; !slices.Contains(from, "runs/callers") || !slices.ContainsFunc(measured.Curves, func(u Used) bool { return u.Of == calledMemory.of }) {
		t.Errorf("forecast from %v, with curves of %+v: want the run of called services", from, measured.Curves)
	}
	few := newSource("runs/callers", app.HTTP1)
	for _, p := range points {
		if p.At[0] <= 1 {
			few.points[calledMemory] = append(few.points[calledMemory], p)
		}
	}
	few.fitCalled(0.95)
	if err := few.missing[calledMemory]; err == nil || !strings.Contains(err.Error(), "2 different numbers of services, and 3 are needed") {
		t.Errorf("a run with two numbers of called services: %v", err)
	}
}
