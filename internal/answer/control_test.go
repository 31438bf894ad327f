package answer_test

import (
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// withControls is a study with an A/A pair of the mesh and an A/A pair of none.
func withControls(seed uint64, data float64) answertest.Study {
	s := answertest.Quickstart()
	s.Treatments, s.Warmup, s.Measure, s.Rate, s.Drift, s.Seed = s.Treatments[:3], 1, 2, 60, 0, seed
	s.Treatments[2].Truth.DataUS *= data
	twin := s.Treatments[2]
	twin.ID, twin.Baseline, twin.Control = "envoy-control", "envoy", true
	twin.Factors = plan.Factors{"mesh": "envoy", plan.ControlFactor: true}
	s.Treatments = append(s.Treatments, twin)
	return s
}

// The A/A pair of a mesh gives the data plane a noise floor, and changes no question.
func TestControlOfAMesh(t *testing.T) {
	r := analyse(t, withControls(1, 1))
	if len(r.Questions) != 1 || len(r.Baseline) != 1 || r.Baseline["mesh"] != "none" {
		t.Errorf("%d questions, baseline %v", len(r.Questions), r.Baseline)
	}
	floors := map[string]*compare.Smallest{}
	for _, f := range r.Floor {
		if f.Metric == "cpu_us_per_request/data" {
			floors[f.Treatment] = f.Smallest
		}
	}
	if floors["envoy-control"] == nil || floors["none-control"] != nil {
		t.Errorf("floors of the data plane: %v", floors)
	}
	if c := find(t, r, "envoy-control", "cpu_us_per_request/data"); c.Question != "" || c.Family != compare.HeadlineAA || c.Smallest == nil {
		t.Errorf("%+v", c)
	}
	if c := find(t, r, "envoy", "cpu_us_per_request/data"); c.Smallest == nil || !c.Smallest.Known() || c.Verdict != compare.Higher {
		t.Errorf("%+v", c)
	}
	// A mesh with a control is not a reference: its change is not a change of the machine.
	base, next := withControls(1, 1).Write(t, filepath.Join(t.TempDir(), "a")), withControls(2, 1.5).Write(t, filepath.Join(t.TempDir(), "b"))
	a := must.Get(compare.CompareRuns([]*result.Dir{base}, next, compare.AcrossOptions{}))(t)
	for _, c := range a.Changes {
		if c.Treatment == "envoy" && c.Reference {
			t.Errorf("envoy is a reference: %+v", c)
		}
	}
}
