package answer

import (
	"testing"

	"github.com/tare-mesh/tare/internal/base/difftest"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
)

func TestExpectationsOverTrials(t *testing.T) {
	v := []float64{1, 0.9, 0.5}
	a := &compare.Run{Plan: plan.Plan{Treatments: []plan.Treatment{{ID: "none"}, {ID: "envoy"}}}}
	for i, o := range []expect.Outcome{
		{Expect: "success_ratio > 0.95", OK: true, Value: &v[0]}, {Expect: "success_ratio > 0.95", Value: &v[1], Detail: "it is 0.9"}, {Expect: "success_ratio > 0.95", Value: &v[2]},
	} {
		a.Records = append(a.Records, result.Record{ID: "t", Treatment: "envoy", Expectations: []expect.Outcome{o}})
		a.Trials = append(a.Trials, figures.Measured{Trial: figures.Trial{Valid: i < 2}}) // the third is not to be used
	}
	all := expectations(a)
	if len(all) != 1 || len(all[0].Values) != 2 {
		t.Errorf("got %+v", all)
	} else if d := difftest.Of("all[0].N", all[0].N, 2, "all[0].Held", all[0].Held, 1, "all[0].Detail", all[0].Detail, "it is 0.9 (t)"); d != "" {
		t.Errorf("%s: got %+v", d, all)
	}
}
