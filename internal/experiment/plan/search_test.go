package plan_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/test/must"
)

// The time of searches is in the plan, and a plan with a search is read again.
func TestPlanWithSearch(t *testing.T) {
	e := must.Get(experiment.Parse("x.yaml", []byte("apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\nfactors: {mesh: [none, envoy], rate: [100, {max: \"p99 < 50ms\"}]}\n"), experiment.Names{}))(t)
	search := experiment.Capacity{Objective: "p99 < 50ms", Share: 0.6, Probes: 12, Length: experiment.Duration(2 * time.Second)}
	p := must.Get(plan.Expand(e))(t)
	b := must.Get(json.Marshal(p))(t)
	var read plan.Plan
	if err := json.Unmarshal(b, &read); err != nil || !reflect.DeepEqual(*p, read) {
		t.Errorf("%v: %s", err, b)
	}
	searched := 0
	for _, x := range p.Treatments {
		if objective := experiment.ObjectiveOf(x.Factors["rate"]); (objective == search.Objective) != (x.Levels.Capacity == search) {
			t.Errorf("%+v", x)
		} else if objective != "" {
			searched++
		}
	}
	trialTime := time.Duration(e.Phases.Warmup+e.Phases.Measure+e.Phases.Drain) + plan.Allowance
	if n := time.Duration(len(p.Trials)); searched != 2 || p.Expected != n*trialTime+n/2*search.SearchTime() || search.SearchTime() < 26*time.Second {
		t.Errorf("%d treatments search, expected time %v, of a search %v", searched, p.Expected, search.SearchTime())
	}
}
