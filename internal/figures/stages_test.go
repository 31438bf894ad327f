package figures

import (
	"testing"

	"github.com/tare-mesh/tare/internal/result"
)

func TestStages(t *testing.T) {
	r := result.Record{Stages: []result.Stage{
		{Route: "/adder", Stage: "total", Count: 100, Seconds: 0.01}, {Route: "/adder", Stage: "calc", Count: 100, Seconds: 0.001},
	}}
	f := &figures{values: map[string]float64{"service_ms/mean": 0.25}}
	stageFigures(f, &r)
	want := map[string]float64{"stage_us/client": 250, "stage_us/server": 100, "stage_us/calc": 10}
	same(t, f.values, want)

	r.Stages = append(r.Stages, result.Stage{Route: "/adder-with-sidecar", Stage: "total", Count: 300, Seconds: 0.09})
	r.Load = &result.Load{Routes: map[string]result.RouteTimes{"/adder": {Requests: 100, MeanMS: 0.2}, "/": {Requests: 1, MeanMS: 1}}}
	f = &figures{values: map[string]float64{}}
	stageFigures(f, &r)
	want = map[string]float64{"stage_us/server": 250, "stage_us/calc": 10, "route_server_us/adder": 100, "route_calc_us/adder": 10,
		"route_server_us/adder-with-sidecar": 300, "route_client_us/adder": 200}
	same(t, f.values, want)
	if _, ok := f.values["stage_us/client"]; ok {
		t.Error("a client's time without a measurement")
	}
}

func same(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if g, ok := got[name]; !ok || g < v*0.999999 || g > v*1.000001 {
			t.Errorf("%s is %v, want %v", name, g, v)
		}
	}
}
