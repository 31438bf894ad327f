package compare

import (
	"runtime"
	"slices"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/figures"
	"golang.org/x/sync/errgroup"
)

// Comparisons are the comparisons of a run, with their families.
type Comparisons struct {
	Families  map[Family]int // number of tests
	all       []compared
	questions []asked
}

// Compare compares every treatment with its baseline.
func (run *Run) Compare() *Comparisons {
	byTreatment := run.validByTreatment()
	planned := run.Plan.ByID()
	parts := make([][]compared, len(run.Plan.Treatments))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, t := range run.Plan.Treatments {
		if t.Baseline == "" || run.estimator.method == AsPublished {
			continue
		}
		base := planned[t.Baseline]
		group.Go(routine.Guarded(func() error {
			parts[i] = run.estimator.compare(t, base, byTreatment[t.ID], byTreatment[base.ID])
			return nil
		}))
	}
	_ = group.Wait() // none of them can fail
	c := &Comparisons{all: slices.Concat(parts...)}
	c.questions = run.questions(c.all, byTreatment)
	c.Families = run.estimator.adjust(c.all, c.questions)
	limit(c.all, c.questions, byTreatment)
	return c
}

// All are the comparisons, in the order of the plan and of the table of metrics.
func (c *Comparisons) All() []Comparison { return comparisonsOf(c.all) }

// Questions are families of their own, in the order of the treatments.
func (c *Comparisons) Questions() []Question {
	var all []Question
	for _, q := range c.questions {
		for _, p := range q.pooled {
			q.Pooled = append(q.Pooled, p.Pooled)
		}
		all = append(all, q.Question)
	}
	return all
}

// Floor has the comparisons of the A/A pairs.
func (c *Comparisons) Floor() []Floor {
	all := []Floor{}
	for i := range c.all {
		if c := &c.all[i]; c.Control {
			all = append(all, floor(&c.Comparison))
		}
	}
	return all
}

// Diagnoses warn of pairs that depend on one another, of an effect that changes during the run, and of outliers.
func (c *Comparisons) Diagnoses() []figures.Warning { return diagnoses(c.all) }

// comparisonsOf returns the comparisons without the values that they rest on.
func comparisonsOf(cs []compared) []Comparison {
	all := make([]Comparison, len(cs))
	for i := range cs {
		all[i] = cs[i].Comparison
	}
	return all
}
