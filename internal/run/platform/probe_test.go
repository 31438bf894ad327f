package platform

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/load"
)

// The bounds come from a Poisson distribution: of 20 answers with 5 % errors, more than 4 fail in 0.4 % of all cases.
func TestAcceptedAnswers(t *testing.T) {
	limited := app.Topology{Entry: "a", Services: []app.Service{{Name: "a", Behavior: app.Behavior{RateLimit: 5, FailedCallStatus: 504}, Calls: []app.Call{{Service: "b"}}},
		{Name: "b", Behavior: app.Behavior{Errors: &app.Errors{Ratio: 0.1}}}}}
	plain := app.Topology{Entry: "a", Services: []app.Service{{Name: "a"}}}
	for _, tc := range []struct {
		topology app.Topology
		ratio    float64
		good     int
		failed   map[string]int
		want     bool
	}{
		{plain, 0.001, 20, nil, true},
		{plain, 0.001, 0, nil, false},
		{plain, 0.001, 19, map[string]int{"503": 1}, false},
		{plain, 0.05, 16, map[string]int{"503": 4}, true},
		{plain, 0.05, 15, map[string]int{"503": 5}, false},
		{plain, 0.9, 0, map[string]int{"503": 20}, true},
		{limited, 0, 1, map[string]int{"429": 10, "504": 9}, true},
		{limited, 0, 19, map[string]int{"502": 1}, false},
		{limited, 0, 19, map[string]int{"grpc-14": 1}, true},
		{limited, 0, 19, map[string]int{"no correct answer": 1}, false},
	} {
		s := Spec{Topology: tc.topology}
		if ok, detail := s.Accept(Probe{Load: load.Profile{ExpectSize: -1}, ErrorRatio: tc.ratio}, Answers{Good: tc.good, Failed: tc.failed}); ok != tc.want {
			t.Errorf("ratio %v: %s: %v, want %v", tc.ratio, detail, ok, tc.want)
		}
	}
}
