package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// plan compares the plan with the plan of the experiment file: the same file and seed
// give the same plan.
func (f *findings) plan(d *result.Dir, o Options) {
	kept := d.Plan()
	f.identifiers(&kept)
	if d.Environment().Platform == imported {
		return // its experiment file describes the import
	}
	made, err := o.Expand(filepath.Join(d.Path(), result.ExperimentFile))
	if err != nil {
		f.note(result.PlanFile, "not compared with "+result.ExperimentFile+", from which this tare cannot make a plan: "+err.Error())
		return
	}
	differ, err := differences(&kept, made)
	switch {
	case err != nil:
		f.problem(result.PlanFile, err.Error())
	case len(differ) > 0 && d.Environment().Tare != o.Tare:
		f.note(result.PlanFile, fmt.Sprintf("it is of tare %s, and tare %s makes another of %s: %s", d.Environment().Tare, o.Tare, result.ExperimentFile, strings.Join(differ, ", ")))
	case len(differ) > 0:
		f.problem(result.PlanFile, fmt.Sprintf("it is not the plan of %s: %s", result.ExperimentFile, strings.Join(differ, ", ")))
	}
}

// imported is the platform of imports.
const imported = "import"

// identifiers checks that trials refer to treatments and blocks of the plan.
func (f *findings) identifiers(p *plan.Plan) {
	known := map[string]bool{}
	for _, t := range p.Treatments {
		if known[t.ID] {
			f.problem(result.PlanFile, fmt.Sprintf("treatment %.80q is in it twice", t.ID))
		}
		known[t.ID] = true
	}
	for _, t := range p.Treatments {
		if t.Baseline != "" && !known[t.Baseline] {
			f.problem(result.PlanFile, fmt.Sprintf("the baseline of treatment %.80q is not among the treatments", t.ID))
		}
	}
	for _, t := range p.Trials {
		if !known[t.Treatment] || t.Block < 1 || t.Block > p.Blocks {
			f.problem(result.PlanFile, fmt.Sprintf("trial %.80q is of block %d and treatment %.80q, which the plan does not have", t.ID, t.Block, t.Treatment))
		}
	}
}

// estimated are the fields that depend on generators and platform, not on the file alone.
var estimated = []string{"trialTime", "expected", "meshChanges"}

// differences lists the fields of plan.json in which two plans differ.
func differences(a, b *plan.Plan) ([]string, error) {
	x, err := fields(a)
	if err != nil {
		return nil, err
	}
	y, err := fields(b)
	if err != nil {
		return nil, err
	}
	both := maps.Clone(x)
	maps.Copy(both, y)
	return lists.Where(slices.Sorted(maps.Keys(both)), func(name string) bool {
		return !slices.Contains(estimated, name) && !reflect.DeepEqual(x[name], y[name])
	}), nil
}

// fields is a plan as its JSON has it.
func fields(p *plan.Plan) (map[string]any, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(b, &m)
}
