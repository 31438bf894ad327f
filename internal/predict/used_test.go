package predict_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/test/must"
)

// The runs that narrow a forecast are repetitions of its own, the most helpful first. Runs that hardly help are left out.
func TestRunsThatNarrowForecasts(t *testing.T) {
	run := written(t) // 200 to 3200 requests/s, 6 blocks
	lasting(run, 10*time.Second)
	place := predict.Placed{Service: "stock", Rate: 50, At: []float64{200}}
	curve := predict.Used{Kind: predict.CPU, From: "runs/x", Curve: &predict.Curve{Axes: []predict.Axis{{Name: "rate", From: 200, To: 3200}}}, Places: []predict.Placed{place}}
	memory := predict.Used{Kind: predict.Memory, From: "runs/callers", Curve: curve.Curve} // more of it would not narrow CPU
	f := predict.Forecast{Confidence: 0.95, From: []string{"runs/x", "runs/callers"}, Curves: []predict.Used{curve, memory},
		CPU: predict.Amount{Causes: predict.Causes{Curve: 0.03, Deployment: 0.04, Range: 0.03}}}
	sources := []predict.Source{{Dir: "runs/x", Run: run}, {Dir: "runs/unused", Run: run}, {Dir: "runs/callers", Run: run}}
	// The half width is √(30² + 40² + 30²) = 58. Student's t is 2.571 of 6 blocks and 2.201 of 12, so that of 12 blocks it is
	// √((30·0.856/√2)² + (40·0.856)² + 30²) = 49. Without the range it is 50.
	want := []predict.Step{
		{Dir: "runs/x", Set: []string{"blocks=12"}, Takes: 5 * 12 * 10 * time.Second, What: "12 blocks in place of 6: CPU to ±49m in place of ±58m"},
		{Dir: "runs/x", Set: []string{"factors.rate=[45, 200, 400, 800, 1600, 3200]"}, Takes: 6 * 6 * 10 * time.Second,
			What: "a rate of 45, because the lowest measured one is 200 and a sidecar of stock has fewer requests: CPU to ±50m in place of ±58m"},
	}
	got := predict.NextOf(sources, []predict.Forecast{f, f})
	if !slices.EqualFunc(got, want, func(a, b predict.Step) bool {
		return a.Dir == b.Dir && a.What == b.What && a.Takes == b.Takes && slices.Equal(a.Set, b.Set)
	}) {
		t.Errorf("steps %+v, want %+v", got, want)
	}
	f.CPU.Causes = predict.Causes{Curve: 0.001, Deployment: 0.001, Range: 0.1}
	if got := predict.NextOf(sources, []predict.Forecast{f}); len(got) != 1 || got[0].Set[0] != want[1].Set[0] {
		t.Errorf("steps %+v, want the lower rate alone", got)
	}
	// At 0.09 requests/s, 20 requests need 223 s.
	rare := f
	rare.Curves = []predict.Used{curve}
	rare.Curves[0].Places = []predict.Placed{{Service: "stock", Rate: 0.1, At: []float64{200}}}
	run.File.Phases.Measure = experiment.Duration(5 * time.Second)
	if got := predict.NextOf(sources, []predict.Forecast{rare}); len(got) != 1 || got[0].Takes != 6*6*(10+223-5)*time.Second ||
		!slices.Equal(got[0].Set, []string{"factors.rate=[0.09, 200, 400, 800, 1600, 3200]", "phases.measure=3m43s"}) {
		t.Errorf("steps %+v, want a rate of 0.09 with 20 requests", got)
	}
	f.CPU.Causes, f.Memory.Causes = predict.Causes{}, predict.Causes{Called: 0.3}
	if got := predict.NextOf(sources, []predict.Forecast{f}); len(got) != 1 || !slices.Contains(got[0].Set, "application.topology=callers") || got[0].Takes != 6*10*time.Second {
		t.Errorf("steps %+v, want services that call others, 6 times 10 s", got)
	}
}

// A forecast has the curves of its costs, with every service on them, and a mesh that is refused leaves the others.
func TestForecastsHaveTheirCurves(t *testing.T) {
	costs := must.Get(predict.CostsOf([]predict.Source{{Dir: "runs/x", Run: written(t)}}))(t)
	g := predict.Graph{Topology: app.Topology{Name: "one", Entry: "front", Services: []app.Service{{Name: "front"}}}}
	all := must.Get(predict.Forecasts(costs, g, map[string]float64{"front": 500}, nil))(t)
	var what []string
	for _, u := range all[0].Curves {
		what = append(what, u.What)
		if u.What != string(u.Kind)+" of "+u.Of {
			t.Errorf("%q is of kind %q, of %q", u.What, u.Kind, u.Of)
		}
		if len(u.Places) != 1 || u.Places[0].Service != "front" || u.Places[0].Rate != 500 || u.Places[0].At[0] != 500 || len(u.Curve.Points) != 30 {
			t.Errorf("%s is read at %+v of %d points, want front at 500 requests/s of 30", u.What, u.Places, len(u.Curve.Points))
		}
		if u.What == "CPU of inbound calls" && u.Places[0].Band.Estimate != all[0].CPU.Estimate {
			t.Errorf("the CPU is %v on the curve, %v in the forecast", u.Places[0].Band.Estimate, all[0].CPU.Estimate)
		}
	}
	if !slices.Equal(what, []string{"CPU of inbound calls", "memory of inbound calls"}) {
		t.Errorf("curves of %q", what)
	}
	g.Services[0].Protocol = app.GRPC
	must.Fail(t, must.Err(predict.Forecasts(costs, g, map[string]float64{"front": 500}, nil)), "calls by grpc were not measured")
}

// Shared proxies cost by the requests that pass them: node proxies by all calls, gateways by those from outside.
func TestSharedProxiesCost(t *testing.T) {
	run := overRates(t, "ambient", func(_ *result.Record, task result.TaskUsage) (all []result.TaskUsage) {
		for _, role := range []string{mesh.RoleNodeProxy, mesh.RoleNodeProxy, mesh.RoleGateway} {
			part := task
			part.Task = mesh.Task{ID: fmt.Sprint(role, len(all)), Plane: metric.Data, Role: role}
			all = append(all, part)
		}
		return all
	})
	costs := must.Get(predict.CostsOf([]predict.Source{{Dir: "runs/ambient", Run: run}}))(t)
	g := predict.Graph{Topology: must.Get(app.Decode("graph.yaml", []byte("name: t\nservices:\n  - {name: front, calls: [back, back]}\n  - name: back\n")))(t)}
	f := must.Get(predict.Forecasts(costs, g, map[string]float64{"front": 300}, nil))(t)[0]
	if len(f.Services) != 0 || len(f.Shared) != 2 {
		t.Fatalf("%d services and %+v, want two kinds of shared proxies alone", len(f.Services), f.Shared)
	}
	node, gateway := f.Shared[0], f.Shared[1]
	if node.Rate != 900 || gateway.Rate != 300 {
		t.Errorf("%v requests/s pass the node proxies and %v the gateway, want 900 and 300", node.Rate, gateway.Rate)
	}
	// A task costs 300 µs a request: two node proxies 600 µs, a gateway 300 µs.
	for _, x := range []struct{ got, want float64 }{{node.CPU.Estimate, 900 * 600e-6}, {gateway.CPU.Estimate, 300 * 300e-6}, {f.CPU.Estimate, 900*600e-6 + 300*300e-6}} {
		if math.Abs(x.got/x.want-1) > 0.1 {
			t.Errorf("%v cores, want %v", x.got, x.want)
		}
	}
	must.Fail(t, must.Err(predict.Forecasts(costs, g, map[string]float64{"front": 2000}, nil)), "6000 requests/s are outside the measured range of 200 to 3200: node-proxy (requests received and sent)")
}

// Runs of services that call others have the memory of each, at their lowest rate alone. Without a run of calls they are none.
func TestRunsOfCallers(t *testing.T) {
	run := overRates(t, "envoy", func(r *result.Record, task result.TaskUsage) (all []result.TaskUsage) {
		r.Edges, r.Balance = 5, &balance.Balance{}
		for _, x := range []struct {
			name   string
			called []string
		}{{"a", []string{"b", "c", "d"}}, {"b", []string{"c"}}, {"c", nil}, {"d", nil}, {app.LoadName, []string{"a"}}} {
			for _, to := range x.called {
				r.Balance.Flows = append(r.Balance.Flows, balance.Flow{Place: balance.Place{Service: x.name, Point: balance.Sent, To: to}})
			}
			part := task
			part.Task = mesh.Task{ID: x.name, Service: x.name, Plane: metric.Data, Role: mesh.RoleSidecar}
			if x.name == app.LoadName {
				part.Component, part.Service = app.LoadName, ""
			}
			mib := 40 + 0.01*float64(r.Block) + 0.5*float64(len(x.called))
			if r.Factors[experiment.RateFactor] != 200.0 {
				mib += 10 * float64(len(x.called))
			}
			part.End.RSS = int64(mib * (1 << 20))
			all = append(all, part)
		}
		return all
	})
	callers := predict.Source{Dir: "runs/callers", Run: run}
	must.Fail(t, must.Err(predict.CostsOf([]predict.Source{callers})), "service that calls no other")
	costs := must.Get(predict.CostsOf([]predict.Source{{Dir: "runs/x", Run: written(t)}, callers}))(t)
	g := predict.Graph{Topology: must.Get(app.Decode("graph.yaml", []byte("name: t\nservices:\n  - {name: front, calls: [back, stock, more]}\n  - name: back\n  - name: stock\n  - name: more\n")))(t)}
	f := must.Get(predict.Forecasts(costs, g, map[string]float64{"front": 300}, nil))(t)[0]
	i := slices.IndexFunc(f.Curves, func(u predict.Used) bool { return u.Of == "called services" })
	if i < 0 || f.Memory.Causes.Called != 0 {
		t.Fatalf("curves of %+v, and %+v: want one of called services", f.Curves, f.Memory)
	}
	alone := must.Get(predict.Forecasts(must.Get(predict.CostsOf([]predict.Source{{Dir: "runs/x", Run: written(t)}}))(t), g, map[string]float64{"front": 300}, nil))(t)[0]
	if f.CPU != alone.CPU {
		t.Errorf("CPU is %+v with a run of callers, and %+v without", f.CPU, alone.CPU)
	}
	c := f.Curves[i].Curve
	for k, want := range map[float64]float64{0: 40, 1: 40.5, 3: 41.5} {
		if b := must.Get(c.At(k))(t); math.Abs(b.Estimate-want) > 0.1 {
			t.Errorf("a sidecar that calls %v services has %v MiB, want %v", k, b.Estimate, want)
		}
	}
	if more := f.Services[0].Memory.Estimate - f.Services[1].Memory.Estimate; math.Abs(more-1.5) > 0.5 {
		t.Errorf("a sidecar that calls 3 services has %v MiB more than one that calls none, want 1.5", more)
	}
}
