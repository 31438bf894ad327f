package stats

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// What cannot be given is absent, with its reason.
func TestAbsentIntervals(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		name     string
		got      Result
		estimate float64
		why      Why
	}{
		{"nothing", MeanInterval(nil, 0.95), nan, TooFew},
		{"one", MeanInterval([]float64{4}, 0.95), 4, TooFew},
		{"two", MeanInterval([]float64{4, 6}, 0.95), 5, TooFew},
		{"constant", MeanInterval([]float64{4, 4, 4}, 0.95), 4, NoSpread},
		{"zeros", MeanInterval([]float64{0, 0, 0}, 0.95), 0, NoSpread},
		{"NaN", MeanInterval([]float64{1, nan, 3}, 0.95), nan, NotFinite},
		{"infinity", MeanInterval([]float64{1, inf, 3}, 0.95), inf, NotFinite},
		{"constant but for rounding", PairedDifference([]float64{0.3, 1.3, 2.3}, []float64{0.1, 1.1, 2.1}, 0.95), 0.2, NoSpread},
		{"two pairs", PairedDifference([]float64{2, 3}, []float64{1, 1}, 0.95), 1.5, TooFew},
		{"zero baseline", PairedRatio([]float64{2, 3, 4}, []float64{1, 0, 1}, 0.95), nan, NotPositive},
		{"negative", PairedRatio([]float64{2, -3, 4}, []float64{1, 1, 1}, 0.95), nan, NotPositive},
		{"constant ratio", PairedRatio([]float64{2, 4, 6}, []float64{1, 2, 3}, 0.95), 2, NoSpread},
		{"ratio with a bound beyond every number", PairedRatio([]float64{1e-300, 1e300, 1}, []float64{1, 1, 1}, 0.95), 1, NotFinite},
		{"ratio beyond every number", PairedRatio([]float64{1e300, 1e301, 1e302}, []float64{1e-300, 1e-300, 1e-301}, 0.95), nan, NotFinite},
		{"Welch ratio with a bound beyond every number", WelchRatio([]float64{1e-300, 1e300, 1}, []float64{1, 1, 1.1}, 0.95), math.Pow(1.1, -1.0/3), NotFinite},
		{"Welch of two", Welch([]float64{2, 4}, []float64{1, 2, 3}, 0.95), 1, TooFew},
		{"Welch constant", Welch([]float64{2, 2, 2}, []float64{1, 1, 1}, 0.95), 1, NoSpread},
		{"Welch ratio of zero", WelchRatio([]float64{2, 2, 0}, []float64{1, 1, 1}, 0.95), nan, NotPositive},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.got.Known() || c.got.P != nil {
				t.Errorf("an interval or a p-value: %+v", c.got)
			}
			if c.got.Why != c.why {
				t.Errorf("why = %q, want %q", c.got.Why, c.why)
			}
			same := math.Abs(c.got.Estimate-c.estimate) < 1e-9 || c.got.Estimate == c.estimate ||
				math.IsNaN(c.got.Estimate) && math.IsNaN(c.estimate)
			if !same {
				t.Errorf("estimate = %v, want %v", c.got.Estimate, c.estimate)
			}
		})
	}
	for _, c := range []struct {
		sd float64
		n  int
	}{{1, 2}, {0, 6}, {math.NaN(), 6}, {inf, 6}} {
		if d, ok := MinDetectable(c.sd, c.n, 0.05, Power); ok {
			t.Errorf("MinDetectable(%v, %d) = %v", c.sd, c.n, d)
		}
	}
}

func TestAbsentIntervalInJSON(t *testing.T) {
	b, err := json.Marshal(MeanInterval([]float64{1, 2}, 0.95).Interval)
	if err != nil || string(b) != `{"estimate":1.5}` {
		t.Errorf("%s, %v", b, err)
	}
	b = must.Get(json.Marshal(MeanInterval([]float64{1, 2, 3}, 0.95).Interval))(t)
	must.Contain(t, string(b), `"low":-0.48`)
}

// Unpaired, the two machines' drift would hide the difference; paired, it does not matter.
func TestPairingRemovesDrift(t *testing.T) {
	base := []float64{100, 120, 90, 150, 130, 110}
	treat := []float64{105.1, 124.8, 95.2, 154.9, 135.1, 114.7}
	paired, welch := PairedDifference(treat, base, 0.95), Welch(treat, base, 0.95)
	if !paired.Excludes(0) || welch.Excludes(0) {
		t.Errorf("paired %v..%v, Welch %v..%v", *paired.Low, *paired.High, *welch.Low, *welch.High)
	}
}
