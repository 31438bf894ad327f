package experiment

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/jsonschema"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/load/capacity"
)

// RateLevel is a level of the factor rate: requests per second, max, or the highest rate with an
// objective.
type RateLevel struct {
	Rate     Rate `yaml:"-"`
	Capacity `yaml:",inline"`
}

// Capacity is a search for the highest rate with an objective, before each trial.
type Capacity struct {
	Objective string   `yaml:"max,omitempty" json:"max"`       // objective, such as `p99 < 50ms, errors < 0.1%`
	Share     Share    `yaml:"share,omitempty" json:"share"`   // share of the rate found that the measure phase has
	Probes    int      `yaml:"probes,omitempty" json:"probes"` // loads of the search
	Length    Duration `yaml:"probe,omitempty" json:"probe"`   // length of each of them
}

// Defaults of a search. The measure phase is below the edge, where answers are still regular.
const (
	defaultShare  Share = 0.6
	defaultProbes       = 12
	defaultProbe        = Duration(2 * time.Second)
)

// Bounds of a search.
const (
	minProbes = 5 // all of them bisect
	maxProbes = 100
	minProbe  = Duration(500 * time.Millisecond)
	maxProbe  = Duration(time.Minute)
	// probeBesides is the time of a probe beyond its length and its warm-up: the generator starts and ends.
	probeBesides = 700 * time.Millisecond
)

// ShortForm reads a number, or max.
func (l *RateLevel) ShortForm() (any, func()) {
	r := new(Rate)
	return r, func() { *l = RateLevel{Rate: *r} }
}

func (RateLevel) Wants() string { return Rate(0).Wants() }

const objectivePrefix = "max with "

// String is the level in records and reports.
func (l RateLevel) String() string {
	if l.Objective != "" {
		return objectivePrefix + l.Objective
	}
	return l.Rate.String()
}

// ObjectiveOf is the objective of a level of the factor rate in a record, or "" if it has none.
func ObjectiveOf(level any) string {
	text, _ := level.(string)
	objective, ok := strings.CutPrefix(text, objectivePrefix)
	if !ok {
		return ""
	}
	return objective
}

// MarshalYAML writes a number, max, or the search.
func (l RateLevel) MarshalYAML() (any, error) {
	if l.Objective != "" {
		return l.Capacity, nil
	}
	return l.Rate, nil
}

// MarshalJSON writes a number, or the search.
func (l RateLevel) MarshalJSON() ([]byte, error) {
	if l.Objective != "" {
		return json.Marshal(l.Capacity)
	}
	return json.Marshal(l.Rate)
}

func rateSchema() *jsonschema.Schema {
	fields := jsonschema.NewProperties()
	fields.Set("max", &jsonschema.Schema{Type: "string"})
	fields.Set("share", unitSchema(reflect.TypeFor[Share]()))
	fields.Set("probes", &jsonschema.Schema{Type: "integer"})
	fields.Set("probe", unitSchema(reflect.TypeFor[Duration]()))
	return &jsonschema.Schema{Properties: fields, AdditionalProperties: jsonschema.FalseSchema, AnyOf: []*jsonschema.Schema{
		{Type: "number", ExclusiveMinimum: "0", Maximum: num(int64(load.MaxRate))},
		{Type: "string", Enum: []any{"max"}},
		{Type: "object", Required: []string{"max"}},
	}}
}

func searchRows(under string) []fieldRow {
	return []fieldRow{
		{under + "max", "Objective, such as \"p99 < 50ms, errors < 0.1%\": each trial searches the highest rate that keeps it.", nil, nil},
		{under + "share", "Share of the rate found at which the measure phase runs.", defaultShare.String(), nil},
		{under + "probes", "Loads of the search.", defaultProbes, between(minProbes, maxProbes, "12 find a rate to about a tenth")},
		{under + "probe", "Length of each; quantiles at low rates take longer.", defaultProbe.String(), between(minProbe, maxProbe, "")},
	}
}

// SearchTime is about the time of the search before a trial, or 0 without one.
func (c Capacity) SearchTime() time.Duration {
	if c.Objective == "" {
		return 0
	}
	return capacity.Longest(c.Probes, time.Duration(c.Length), time.Duration(c.Length)/4+probeBesides)
}

func (e *Experiment) completeSearches() {
	complete := func(l *RateLevel) {
		if l.Objective == "" {
			return
		}
		l.Share = cmp.Or(l.Share, defaultShare)
		l.Probes = cmp.Or(l.Probes, defaultProbes)
		l.Length = cmp.Or(l.Length, defaultProbe)
	}
	levels := LevelsOf[RateLevel](e.Factors, "rate")
	for i := range levels {
		complete(&levels[i])
	}
	if l, ok := e.Baseline["rate"].(RateLevel); ok {
		complete(&l)
		e.Baseline["rate"] = l
	}
}

// searches reports whether a level of the rate is found by a search.
func (e *Experiment) searches() bool {
	return slices.ContainsFunc(LevelsOf[RateLevel](e.Factors, "rate"), func(l RateLevel) bool { return l.Objective != "" })
}

func (v factorRules) capacity(path string, c Capacity) {
	if _, err := capacity.ParseBounds(c.Objective); err != nil {
		v.report(path+".max", "bounds are those of tare load --gate, with commas between them", "%v", err)
	}
	if len(c.Objective) > maxObjective {
		v.report(path+".max", "", "%d bytes, max %d", len(c.Objective), maxObjective)
	}
	if g := otherGenerator(v.e); g != "" {
		v.report(path, "remove the generator, or give a rate", "only the generator tare searches a rate, not %s", clip(g))
	}
	if v.e.Load.Profile.Cycle() > 0 {
		v.report(path, "remove load.profile, or give a rate", "the rate cannot be searched while load.profile changes it")
	}
}

// maxObjective bounds the text, which is a level's name in every table, bytes.
const maxObjective = 100
