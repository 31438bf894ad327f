package figures

import (
	"testing"

	"github.com/tare-mesh/tare/internal/result"
)

func TestRequestFigures(t *testing.T) {
	f := &figures{values: map[string]float64{}}
	requestFigures(f, &result.Record{Load: &result.Load{Routes: map[string]result.RouteTimes{
		"GET /many": {Requests: 1000, Failed: 250, MeanMS: 1, P50MS: 1, P90MS: 2, P99MS: 3},
		"/few":      {Requests: 100, MeanMS: 1, P50MS: 4, P90MS: 5, P99MS: 6},
		"none":      {},
		"all fail":  {Failed: 7},
		"earlier":   {Requests: 5000, MeanMS: 1},
	}}})
	want := map[string]float64{"request_p50_ms/GET /many": 1, "request_p90_ms/GET /many": 2, "request_p99_ms/GET /many": 3, "request_error_ratio/GET /many": 0.2,
		"request_p50_ms/few": 4, "request_p90_ms/few": 5, "request_error_ratio/few": 0, "request_error_ratio/all fail": 1}
	same(t, f.values, want)
	if len(f.values) != len(want) {
		t.Errorf("figures %v, want %v", f.values, want)
	}
	f = &figures{values: map[string]float64{}}
	requestFigures(f, &result.Record{Error: "x", Load: &result.Load{Routes: map[string]result.RouteTimes{"/a": {Requests: 1000, P50MS: 1}}}})
	if len(f.values) > 0 {
		t.Errorf("a failed trial has figures: %v", f.values)
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
