package predict_test

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/predict"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/test/must"
)

// controlled is a run of one sidecar and a control plane at levels of a factor. The load takes 5 s. The control plane has
// cores and MiB by the level.
func controlled(t *testing.T, factor string, levels []float64, cost func(level float64) (cores, mib float64)) *compare.Run {
	t.Helper()
	return overLevels(t, "envoy-xds", factor, levels, func(r *result.Record, task result.TaskUsage) []result.TaskUsage {
		level := r.Factors[factor].(float64)
		r.Balance = &balance.Balance{Flows: []balance.Flow{{Place: balance.Place{Service: balance.LoadName, Point: balance.Sent, To: "echo"}}}}
		cores, mib := cost(level)
		if factor == "backgroundProxies" {
			r.Background = &result.Background{Services: 100, Pushes: &result.Pushes{Proxies: int(level)}}
		}
		control := task
		control.Task = mesh.Task{ID: "xds/control", Plane: metric.Control, Role: "server"}
		control.End.CPU = control.Start.CPU + int64(cores*5e9)
		control.End.RSS = int64(mib * (1 << 20))
		task.Task = mesh.Task{ID: "echo-0/sidecar", Pod: "echo-0", Service: "echo", Container: "sidecar", Plane: metric.Data, Role: mesh.RoleSidecar}
		return []result.TaskUsage{task, control}
	})
}

// A control plane costs what was measured, whatever the requests are. A run with several numbers of proxies has its growth.
func TestForecastsOfControlPlanes(t *testing.T) {
	curve := predict.Source{Dir: "runs/curve", Run: controlled(t, "rate", []float64{200, 400, 800}, func(float64) (float64, float64) { return 0.02, 30 })}
	idle := predict.Source{Dir: "runs/idle", Run: controlled(t, "rate", []float64{200, 400, 800}, func(float64) (float64, float64) { return 0, 30 })}
	churn := predict.Source{Dir: "runs/churn", Run: controlled(t, "backgroundProxies", []float64{9, 99, 299, 599}, func(proxies float64) (float64, float64) {
		return 0.01 + 0.001*(proxies+1), 20 + 0.1*(proxies+1) // with the real sidecar
	})}
	forecast := func(replicas int, rate float64, from ...predict.Source) predict.Forecast {
		t.Helper()
		g := predict.Graph{Topology: app.Topology{Name: "two", Entry: "front", Services: []app.Service{{Name: "front", Replicas: replicas}, {Name: "back"}}}}
		all := must.Get(predict.Forecasts(must.Get(predict.CostsOf(from))(t), g, map[string]float64{"front": rate}, &predict.Prices{Core: 20, MiB: 0.01}))(t)
		if len(all) != 1 {
			t.Fatalf("%d forecasts, want 1: a study of the control plane is not a mesh of its own", len(all))
		}
		return all[0]
	}
	for _, c := range []struct {
		name       string
		f          predict.Forecast
		from       string
		cores, mib float64
		at         float64 // proxies
	}{
		{"measured", forecast(199, 300, curve), "runs/curve", 0.02, 30, 1},
		{"another rate", forecast(199, 600, curve), "runs/curve", 0.02, 30, 1},
		{"nothing changed", forecast(1, 300, idle), "runs/idle", 0, 30, 1},
		{"200 proxies", forecast(199, 300, curve, churn), "runs/churn", 0.01 + 0.001*200, 20 + 0.1*200, 200},
		{"fewer than measured", forecast(1, 300, churn, curve), "runs/churn", 0.01 + 0.001*10, 20 + 0.1*10, 10},
		{"more than measured", forecast(999, 300, curve, churn), "runs/curve", 0.02, 30, 1},
	} {
		got := c.f.Control
		if got == nil || got.From != c.from || got.Grows != (c.from == "runs/churn") || got.Configured[0].At != c.at {
			t.Errorf("%s: %+v, want a cost from %s at %v proxies", c.name, got, c.from, c.at)
			continue
		}
		for what, pair := range map[string][2]float64{"CPU": {got.CPU.Estimate, c.cores}, "memory": {got.Memory.Estimate, c.mib}, "a month": {got.Month.Estimate, 20*c.cores + 0.01*c.mib}} {
			if math.Abs(pair[0]-pair[1]) > 0.03*pair[1] {
				t.Errorf("%s: %s is %v, want %v", c.name, what, pair[0], pair[1])
			}
		}
		if all, sum := c.f.Total, c.f.Month.Estimate+got.Month.Estimate; all == nil || math.Abs(all.Estimate-sum) > 1e-9 || all.High-all.Estimate > c.f.Month.High+got.Month.High-sum+1e-9 {
			t.Errorf("%s: in all %+v, want %v, with a range that is not wider than those of both together", c.name, all, sum)
		}
		if (c.f.NoControl != "") != (c.name == "more than measured") {
			t.Errorf("%s: not used: %q", c.name, c.f.NoControl)
		}
	}
	if f := forecast(1, 300, predict.Source{Dir: "runs/x", Run: written(t)}); f.Control != nil || f.NoControl != "" {
		t.Errorf("without a control plane: %+v, %q", f.Control, f.NoControl)
	}
}

// Trials in which a control plane used no CPU count in its mean, in sizes and in forecasts alike.
func TestMeanOfControlPlanesHasIdleTrials(t *testing.T) {
	run := controlled(t, "rate", []float64{200, 400, 800}, func(rate float64) (float64, float64) {
		return map[float64]float64{200: 0, 400: 0.03, 800: 0.06}[rate], 30
	})
	all := must.Get(predict.Sizes(run, predict.Sizing{Rate: 300}))(t)
	if n := len(all); n != 2 || all[1].Proxy != predict.ControlPlane || math.Abs(all[1].CPU.Estimate-0.03) > 1e-6 || all[1].Memory.Estimate != 30 {
		t.Fatalf("sizes %+v, want a control plane with the mean of 0, 0.03 and 0.06 cores, and 30 MiB", all)
	}
	// The blocks are alike, so that another trial deviates as the trials of a block do.
	c := all[1].Curve
	if sd := math.Sqrt(2*0.03*0.03/2) / 0.03; math.Abs(c.Noise-sd) > 1e-3 || all[1].CPU.High-all[1].CPU.Low > 1e-6 || all[1].CPU.NewLow != 0 {
		t.Errorf("noise %v and band %+v, want a noise of %v of the mean, and no deviation of blocks", c.Noise, all[1].CPU, sd)
	}
	g := predict.Graph{Topology: app.Topology{Name: "one", Entry: "front", Services: []app.Service{{Name: "front"}}}}
	costs := must.Get(predict.CostsOf([]predict.Source{{Dir: "runs/x", Run: run}}))(t)
	if f := must.Get(predict.Forecasts(costs, g, map[string]float64{"front": 300}, nil))(t)[0]; f.Control.CPU.Estimate != all[1].CPU.Estimate || f.Control.CPU.High != all[1].CPU.NewHigh {
		t.Errorf("forecast %+v, size %+v: want the same mean and range", f.Control.CPU, all[1].CPU)
	}
}

// A study that varies one number at a time does not have what two of them cost together: only the proxies are read off, at the
// services and changes of their trials.
func TestForecastsOfControlPlanesReadOneNumber(t *testing.T) {
	run := controlled(t, "rate", []float64{200, 400, 800, 1600, 3200}, func(float64) (float64, float64) { return 0.02, 30 })
	trials := map[int]int{}
	for i := range run.Records {
		r := &run.Records[i]
		at := [][2]int{{10, 5}, {100, 5}, {500, 5}, {100, 1}, {100, 20}}[trials[r.Block]] // proxies and changes
		trials[r.Block]++
		r.Background = &result.Background{Services: 100, Asked: float64(at[1]), Pushes: &result.Pushes{Proxies: at[0]}}
		for j := range r.Tasks {
			if task := &r.Tasks[j]; task.Plane == metric.Control {
				task.End.CPU = task.Start.CPU + int64((0.01+1e-4*float64(at[1]*(at[0]+1)))*5e9) // for each push
			}
		}
	}
	g := predict.Graph{Topology: app.Topology{Name: "one", Entry: "front", Services: []app.Service{{Name: "front", Replicas: 51}}}}
	f := must.Get(predict.Forecasts(must.Get(predict.CostsOf([]predict.Source{{Dir: "runs/x", Run: run}}))(t), g, map[string]float64{"front": 300 * 51}, nil))(t)[0]
	if c := f.Control; c == nil || !c.Grows || math.Abs(c.CPU.Estimate-(0.01+1e-4*5*51)) > 0.001 || c.Configured[2].At != 5 {
		t.Errorf("%+v, want 0.0355 cores for 51 proxies at 5 changes per second", f.Control)
	}
}
