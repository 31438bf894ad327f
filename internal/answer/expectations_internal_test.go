package answer

import (
	"fmt"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/difftest"
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
	// Three of two trials of a treatment, and two of one of another: each has its own.
	a = &compare.Run{Plan: plan.Plan{Treatments: []plan.Treatment{{ID: "none"}, {ID: "envoy"}}}}
	for _, x := range []struct {
		of string
		n  int
	}{{"envoy", 3}, {"none", 2}, {"envoy", 3}} {
		a.Records = append(a.Records, result.Record{Treatment: x.of, Expectations: []expect.Outcome{{Expect: "a", AtMost: &v[0]}, {Expect: "b"}, {Expect: "c"}}[:x.n]})
		a.Trials = append(a.Trials, figures.Measured{Trial: figures.Trial{Valid: true}})
	}
	got := ""
	for _, e := range expectations(a) {
		got += fmt.Sprint(e.Treatment, e.Expect, e.N, len(e.Values), " ")
	}
	if got != "nonea1 1 noneb1 0 envoya2 2 envoyb2 0 envoyc2 0 " {
		t.Error(got)
	}
}
