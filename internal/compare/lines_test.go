package compare

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/test/difftest"
)

// Lines have a fixed cost and a cost per request, and a warning if the means do not fit.
func TestLines(t *testing.T) {
	for _, bend := range []float64{0, 0.5} {
		a := &Run{estimator: estimator{confidence: 0.95}}
		by := map[string][]figures.Measured{}
		for _, rate := range []float64{60, 120, 240, 600, 1200} {
			id := LevelText(rate)
			a.Plan.Treatments = append(a.Plan.Treatments, plan.Treatment{ID: id, Factors: plan.Factors{"mesh": "x", "rate": rate}})
			for i := range 5 {
				cores := (0.05 + 0.002*rate*(1-bend*rate/1200)) * (1 + 0.01*float64(i-2))
				by[id] = append(by[id], figures.Measured{Trial: figures.Trial{Metrics: map[string]float64{"rate": rate, "cpu_cores/data": cores}}})
			}
		}
		lines := a.estimator.lines(a.Plan.Treatments, by)
		if len(lines) != 1 {
			t.Fatalf("%d lines", len(lines))
		}
		l := lines[0]
		if bent := len(l.Warnings) > 0; bent != (bend > 0) {
			t.Errorf("bend %v: warnings %v, misfit %v", bend, l.Warnings, *l.Misfit)
		}
		if bend == 0 && (l.FixedCores.Excludes(0.05) || l.PerRequestUS.Excludes(2000)) {
			t.Errorf("%+v", l)
		}
		if _, named := l.Factors["rate"]; named {
			t.Errorf("%+v", l)
		} else if d := difftest.Of("l.From", l.From, 60, "l.To", l.To, 1200, "l.Rates", l.Rates, 5, "l.N", l.N, 25); d != "" {
			t.Errorf("%s: %+v", d, l)
		}
	}
}
