package answer

import (
	"github.com/tare-mesh/tare/internal/experiment/expect"

	"github.com/tare-mesh/tare/internal/compare"
)

// Expectation is one condition of the experiment over the trials of a treatment.
type Expectation struct {
	Treatment string    `json:"treatment"`
	Expect    string    `json:"expect"`
	Unit      string    `json:"unit,omitempty"`
	N         int       `json:"n"`                   // valid trials it was evaluated on
	Held      int       `json:"held"`                // trials of these in which it held
	Undecided int       `json:"undecided,omitempty"` // trials of these whose bounds contain the limit
	Values    []float64 `json:"values"`              // of times of changes both bounds, where they are known
	// Detail is from the first trial in which it did not hold. Empty means that it held in all.
	Detail string `json:"detail,omitempty"`
}

// expectations gathers the expectations of the valid trials: treatments in the
// order of the plan, conditions in the order of the file.
func expectations(run *compare.Run) []Expectation {
	var all []Expectation
	for _, t := range run.Plan.Treatments {
		var own []Expectation
		for i, r := range run.Records {
			if r.Treatment != t.ID || !run.Trials[i].Valid {
				continue
			}
			for j, o := range r.Expectations {
				if j == len(own) {
					own = append(own, Expectation{Treatment: t.ID, Expect: o.Expect, Unit: o.Unit, Values: []float64{}})
				}
				own[j].add(o, r.ID)
			}
		}
		all = append(all, own...)
	}
	return all
}

func (e *Expectation) add(o expect.Outcome, trial string) {
	e.N++
	if o.Value != nil {
		e.Values = append(e.Values, *o.Value)
	}
	if o.AtMost != nil {
		e.Values = append(e.Values, *o.AtMost)
	}
	if o.Undecided {
		e.Undecided++
	}
	if o.OK {
		e.Held++
	} else if e.Detail == "" {
		e.Detail = o.Detail + " (" + trial + ")"
	}
}
