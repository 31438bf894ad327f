package figures

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// The CPU in the slices of others belongs to the own slice before, without the idle use: 1 ms in a slice of app, whose
// record has an idle rate of 0.01 cores.
func TestCostOfASlice(t *testing.T) {
	path := filepath.Join(t.TempDir(), result.SlicesFile)
	text := `slice,own,begin_s,end_s,intended,answered,ok,overrun,response_ns,cpu_ns_app,cpu_ns_data
9,false,0.9,1.0,0,0,0,0,0,1900000,0
10,true,1.0,1.1,90,90,90,0,0,9000000,18000000
11,false,1.1,1.2,0,0,0,0,0,1500000,900000
12,false,1.2,1.3,0,0,0,0,0,500000,0
13,true,1.3,1.4,0,0,0,0,0,100000,0
14,true,1.4,1.5,45,45,45,0,0,4500000,9000000
`
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	f := &figures{values: map[string]float64{}}
	idle, begin := int64(3e6), time.Now()
	r := &result.Record{Load: &result.Load{Slices: &result.OwnSlices{Count: 3, LengthSeconds: 0.1}}, Tasks: []result.TaskUsage{{
		Task: mesh.Task{ID: "app", Plane: metric.App}, Start: result.Reading{At: begin}, End: result.Reading{At: begin.Add(600 * time.Millisecond)}, IdleCPU: &idle,
	}}}
	figuresOf := func(r *result.Record, path string) SliceCosts {
		rows, err := readRows(r, path)
		return sliceFigures(f, &sliced{record: r, rows: rows}, err)
	}
	got := figuresOf(r, path)
	app, data := got["app"], got["data"]
	near := func(x, want float64) bool { return math.Abs(x-want) < 1e-9 }
	if len(app) != 3 {
		t.Errorf("app %v, data %v, total %v", app, data, got["total"])
	} else if d := difftest.Wrong("!near(app[0], 110)", !near(app[0], 110), "app[1] == app[1]", app[1] == app[1], "!near(app[2], 100)", !near(app[2], 100), "!near(data[0], 210)", !near(data[0], 210), `!near(got["total"][2], 300)`, !near(got["total"][2], 300)); d != "" {
		t.Errorf("%s: app %v, data %v, total %v", d, app, data, got["total"])
	}
	if figuresOf(r, path+".gone") != nil || len(f.warnings) != 1 {
		t.Errorf("%+v", f.warnings)
	} else if d := difftest.Wrong(`f.warnings[0].Code != "slices-unread"`, f.warnings[0].Code != "slices-unread", `!strings.Contains(f.warnings[0].Message, "has no slices.csv")`, !strings.Contains(f.warnings[0].Message, "has no slices.csv")); d != "" {
		t.Errorf("%s: %+v", d, f.warnings)
	}
	if figuresOf(&result.Record{Load: &result.Load{}}, path) != nil {
		t.Error("a trial without slices has their costs")
	}
}

// Of 100 requests in 0.3 of 0.6 s, 3 ms of idle CPU in the slices of others are 0.01 cores: 30 us a request in its own.
// 2 ms of deferred work are 20 us.
func TestPartsOfTheCost(t *testing.T) {
	idle, deferred, begin := int64(3e6), int64(2e6), time.Now()
	r := &result.Record{Load: &result.Load{Completed: 100, Slices: &result.OwnSlices{Count: 3, LengthSeconds: 0.1}}, Tasks: []result.TaskUsage{{
		Task: mesh.Task{ID: "app", Plane: metric.App}, Start: result.Reading{At: begin}, End: result.Reading{At: begin.Add(600 * time.Millisecond)},
		IdleCPU: &idle, DeferredCPU: &deferred,
	}}}
	f := &figures{values: map[string]float64{}}
	idleFigures(f, r)
	for name, want := range map[string]float64{metric.IdleCPU: 0.01, metric.IdlePerRequest: 30, metric.DeferredPerRequest: 20} {
		if got := f.values[metric.Of(name, "app")]; math.Abs(got-want) > 1e-12*want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}
