package answer_test

import (
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// Shown to be the same, no difference shown, and different yet small are three answers.
func TestEquivalence(t *testing.T) {
	s := answertest.Quickstart()
	s.Treatments, s.Drift, s.Noise, s.Warmup, s.Measure, s.Rate = s.Treatments[:3], 0, 0.004, 1, 2, 200
	s.Treatments[2].Truth = s.Treatments[0].Truth
	s.Treatments[2].Truth.LoadUS *= 1.015 // a little dearer, which six quiet blocks show
	s.YAML = "metadata: {name: same}\nequivalence: 3%\n"
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	for _, c := range []struct {
		margin  float64
		metric  string
		verdict compare.Verdict
		within  bool
	}{
		{0, "cpu_us_per_request/total", compare.Same, true}, // the file's 3 %
		{0.0001, "cpu_us_per_request/total", compare.NotShown, false},
		{0, "cpu_us_per_request/load", compare.Higher, true},
	} {
		r := must.Get(answer.Analyze(d, compare.Options{SameWithin: c.margin}))(t)
		got := find(t, r, "envoy", c.metric)
		if got.Verdict != c.verdict || got.Equivalence == nil || got.Equivalence.Within != c.within {
			t.Errorf("%s at %v: %s, %+v (ratio %+v)", c.metric, c.margin, got.Verdict, got.Equivalence, got.Ratio)
		}
		if e := find(t, r, "envoy", "cpu_us_per_request/data").Equivalence; e != nil {
			t.Errorf("zero against zero is within %+v of a ratio", e)
		}
	}
}

// A latency's verdict is its ratio's, and never contradicts the ratio's interval by itself.
func TestLatencyIsJudgedOnTheLogarithm(t *testing.T) {
	r := quickstartReport(t)
	for _, c := range r.Comparisons {
		base := c.Metric[:min(10, len(c.Metric))]
		if want := base == "latency_ms" || base == "service_ms" || base == "lateness_u"; c.P != nil && c.OnRatio != want {
			t.Errorf("%s: on the ratio: %v", c.Metric, c.OnRatio)
		}
		if c.OnRatio && c.Ratio.Known() && (*c.P < 0.05) != c.Ratio.Excludes(1) {
			t.Errorf("%s of %s: p %v and ratio %v to %v", c.Metric, c.Treatment, *c.P, *c.Ratio.Low, *c.Ratio.High)
		}
	}
}
