package cli

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// stackedWeights are standard weights of 0, 50, 100 and 200 µs as the steps of a ladder.
const stackedWeights = `apiVersion: tare.dev/v1beta1
kind: Experiment
metadata: {name: stacked-weights}
meshes: {w200: {from: reference, arguments: [--burn, 200us]}}
factors: {mesh: [reference, reference-50us, reference-100us, w200], rate: [300], connections: [4]}
validity: {rateShortfall: 0.5, lateness: 5s}
baseline: {mesh: reference}
ladder: true
order: interleaved
confidence: 0.999
control: false
blocks: 5
phases: {warmup: 300ms, measure: 1500ms, drain: 1s}
`

// The report of the program recovers the increments of stacked weights within their intervals, and they add up.
func TestLadderOfStandardWeights(t *testing.T) {
	file := must.File(t, t.TempDir(), "stacked.yaml", stackedWeights)
	r, _ := carriedOut(t, file)
	if len(r.Ladders) != 1 || len(r.Ladders[0].Steps) != 4 {
		t.Fatalf("%+v", r.Ladders)
	}
	for _, m := range r.Ladders[0].Metrics {
		if m.Whole == nil || math.Abs(m.Sum+*m.Rest-m.Whole.Estimate) > 1e-6*math.Abs(m.Whole.Estimate) {
			t.Errorf("%s: sum %v and rest %v, whole %+v", m.Metric, m.Sum, m.Rest, m.Whole)
		}
		if m.Metric != "cpu_us_per_request/data" {
			continue
		}
		for i, want := range []float64{50, 50, 100} {
			// Burning overshoots by the cost of reading the clock, which the standard weight is known for.
			c := m.Increments[i]
			if c.Difference == nil || c.Difference.Excludes(want) && math.Abs(c.Difference.Estimate-want) > 0.1*want {
				t.Errorf("step %d adds %+v, want %v", i+1, c.Difference, want)
			}
		}
		if m.Whole.Estimate < 100 || m.Whole.Excludes(200) && math.Abs(m.Whole.Estimate-200) > 20 {
			t.Errorf("the whole adds %+v, want 200", m.Whole)
		}
	}
}

// The ladders of the examples are planned in the order of their files, without Consul or a cluster.
func TestLaddersArePlanned(t *testing.T) {
	for name, steps := range map[string]int{"envoy-ladder": 15, "consul-ladder": 9, "istio-ladder": 9, "envoy-knowledge": 13} {
		s, err := testLine(t, nil).Read(t.Context(), "../../examples/"+name+".yaml", ExperimentOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		meshes := experiment.LevelsOf[string](s.Experiment.Factors, "mesh")
		if len(meshes) != steps || s.Experiment.Ladder != strings.HasSuffix(name, "ladder") {
			t.Errorf("%s: %d meshes, ladder %v", name, len(meshes), s.Experiment.Ladder)
		}
		var order []string
		for _, tr := range s.Plan.Treatments {
			if !tr.Control {
				order = append(order, tr.Factors["mesh"].(string))
			}
		}
		if strings.Join(order, " ") != strings.Join(meshes, " ") {
			t.Errorf("%s: treatments %v, meshes %v", name, order, meshes)
		}
		for _, m := range meshes {
			if _, ok := s.Meshes[m]; !ok {
				t.Errorf("%s: no definition of %s", name, m)
			}
		}
	}
}

// tare report --ladder adds the steps to any run with several treatments.
func TestReportLadder(t *testing.T) {
	dir := results(t)
	got, err := call(t, newReportCommand, dir, "--ladder")
	must.OK(t, err)
	must.Contain(t, got, "Ladder: what each step adds", "+ envoy-tcp", "all steps together")
	if got, err = call(t, newReportCommand, dir); err != nil || strings.Contains(got, "Ladder:") {
		t.Errorf("without --ladder: %v\n%s", err, got)
	}
	dir = filepath.Join(t.TempDir(), "one")
	s := answertest.Quickstart()
	s.Blocks, s.Warmup, s.Measure, s.Rate, s.Treatments = 3, 1, 2, 50, s.Treatments[:2]
	s.Write(t, dir)
	_, err = call(t, newReportCommand, dir, "--ladder")
	must.Fail(t, err, "no ladder", "one treatment")
}
