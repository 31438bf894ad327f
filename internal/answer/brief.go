package answer

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/stats"
)

// Brief is the field answer of every result as JSON: what a program needs to act on the result.
type Brief struct {
	Sentence   string          `json:"sentence"`
	Verdict    compare.Verdict `json:"verdict"`
	Subject    string          `json:"subject,omitempty"`
	Baseline   string          `json:"baseline,omitempty"`
	Metric     string          `json:"metric,omitempty"`
	Unit       string          `json:"unit,omitempty"`
	Difference *stats.Interval `json:"difference,omitempty"`
	OfRatio    bool            `json:"of_ratio,omitempty"`
	Figure     *stats.Interval `json:"figure,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Minutes    float64         `json:"minutes_needed,omitempty"`
	ExitCode   int             `json:"exit_code"`
}

// Verdicts of results that compare nothing. Comparisons, trends and gates have types of their own.
const (
	Measured  compare.Verdict = "measured"
	Predicted compare.Verdict = "predicted"
	Planned   compare.Verdict = "planned"
	Missed    compare.Verdict = "missed" // a target
)

// Verdicts lists all verdicts of a [Brief].
func Verdicts() []compare.Verdict {
	return []compare.Verdict{
		compare.Higher, compare.Lower, compare.NotShown, compare.Same, compare.Insufficient,
		compare.Verdict(compare.Holds), compare.Verdict(compare.Breached), compare.Verdict(compare.Undecided),
		Measured, Predicted, Planned, Missed,
		compare.Verdict(StillGrowing), compare.Verdict(StillFalling), compare.Verdict(Steady), compare.Verdict(NoTrendShown),
	}
}

// BriefFields describe the fields of a [Brief] in their order.
func BriefFields() [][2]string {
	return [][2]string{
		{"sentence", "the first result in words"},
		{"verdict", "of a difference, a trend, a gate or a check; without one how the figure came about"},
		{"subject", "treatment, program, or directory"},
		{"baseline", "what it is compared with"},
		{"metric", "name, as `tare list metrics` prints it, or of another figure"},
		{"unit", "of the amounts; absent of a ratio"},
		{"difference", "subject minus baseline, with the interval of the verdict"},
		{"of_ratio", "difference is subject over baseline"},
		{"figure", "amount of a result without a baseline"},
		{"reason", "for no verdict, an undecided gate, or a doubt: a code or words"},
		{"minutes_needed", "that would decide it: more of a run with gates, in all of another one"},
		{"exit_code", "of this command"},
	}
}

// BriefSchema returns the JSON Schema (draft 2020-12) of a result with its field answer. Other fields depend on the command.
func BriefSchema() ([]byte, error) {
	brief := jsonschema.Of(reflect.TypeFor[Brief](), "json", func(t reflect.Type) *jsonschema.Schema {
		if t != reflect.TypeFor[compare.Verdict]() {
			return nil
		}
		s := &jsonschema.Schema{Type: "string"}
		for _, v := range Verdicts() {
			s.Enum = append(s.Enum, v)
		}
		return s
	})
	brief.AdditionalProperties = nil // later versions add fields
	brief.Required = []string{"sentence", "verdict", "exit_code"}
	for _, f := range BriefFields() {
		p, ok := brief.Properties.Get(f[0])
		if !ok {
			return nil, fmt.Errorf("build schema: there is no field %s", f[0])
		}
		p.Description = f[1]
	}
	s := &jsonschema.Schema{Version: brief.Version, Title: "answer of tare", Type: "object", Properties: jsonschema.NewProperties(), Required: []string{"answer"}}
	brief.Version = ""
	s.Properties.Set("answer", brief)
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("build schema: %w", err)
	}
	return append(text, '\n'), nil
}
