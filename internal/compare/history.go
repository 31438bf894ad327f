package compare

import (
	"fmt"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// HistorySchema is the schema of a [History] as JSON.
const HistorySchema = "tare.history/v1"

// History is a series of runs with its changes. The run is the unit: what
// varies from day to day is in it, and trials of one run share their day.
type History struct {
	Schema string       `json:"schema"`
	Alpha  float64      `json:"alpha"`
	Runs   []HistoryRun `json:"runs"` // by their beginning
	Series []Series     `json:"series"`
	// Obstacles are conditions that changed between runs. They may be the cause of a change of a series at such a run.
	Obstacles []RunDistinction `json:"obstacles"`
	// Warnings are of trials that were left out because their record cannot be trusted.
	Warnings []RunWarning `json:"warnings,omitempty"`
}

// RunWarning is a warning about one of the runs.
type RunWarning struct {
	Run int `json:"run"` // index in Runs
	figures.Warning
}

// HistoryRun is one of the runs.
type HistoryRun struct {
	Dir   string    `json:"dir"`
	Began time.Time `json:"began"`
	Tare  string    `json:"tare,omitempty"`
}

// RunDistinction is something in which a run differs from the one before.
type RunDistinction struct {
	Run int `json:"run"` // index in Runs
	Distinction
}

// Series is one headline metric of one treatment over the runs. A treatment with a
// baseline has two: the value itself, and the value relative to the baseline of the same
// run. A machine that is faster by a fifth changes the first and not the second.
type Series struct {
	Treatment string       `json:"treatment"`
	Factors   plan.Factors `json:"factors"`
	Metric    string       `json:"metric"`
	Unit      string       `json:"unit"` // of a relative series: empty
	// RelativeTo is the metric of the baseline that Values are divided by. It is absent if they are not divided.
	RelativeTo string `json:"relative_to,omitempty"`
	// Followed: the series shows changes of the treatment. Reports list its changes only.
	Followed bool `json:"followed"`
	// Autocorrelation of neighbouring runs around their segments, if it is significant:
	// changes of such a series are more frequent than alpha.
	Autocorrelation *float64      `json:"autocorrelation,omitempty"`
	Runs            []int         `json:"runs"` // indices in History.Runs of the values
	Values          []float64     `json:"values"`
	Changes         []ChangePoint `json:"changes"`
}

// ChangePoint is the first run after a change of a series.
type ChangePoint struct {
	Run    int     `json:"run"` // index in History.Runs of the first run after it
	P      float64 `json:"p"`
	Before float64 `json:"before"` // means, up to the changes next to it
	After  float64 `json:"after"`
}

// MinHistory is the number of runs needed to show a change.
const MinHistory = 8

// Histories finds the changes of a series of runs. Each series is tested at alpha separately.
func Histories(dirs []*result.Dir, alpha float64, o Options) (*History, error) {
	if len(dirs) < MinHistory {
		return nil, fmt.Errorf("find changes: %d runs, and a change needs %d to be shown", len(dirs), MinHistory)
	}
	dirs = slices.Clone(dirs)
	slices.SortStableFunc(dirs, func(a, b *result.Dir) int { return a.Environment().Time.Compare(b.Environment().Time) })
	h := &History{Schema: HistorySchema, Alpha: alpha, Series: []Series{}, Obstacles: []RunDistinction{}}
	index := map[string]int{}
	for i, d := range dirs {
		e := d.Environment()
		h.Runs = append(h.Runs, HistoryRun{d.Path(), e.Time, e.Tare})
		if i > 0 {
			obstacles, _, err := distinguish(dirs[i-1], d)
			if err != nil {
				return nil, err
			}
			for _, o := range obstacles {
				h.Obstacles = append(h.Obstacles, RunDistinction{i, o})
			}
		}
		run, err := Read(d, o)
		if err != nil {
			return nil, err
		}
		h.add(i, run, index)
		for _, w := range figures.Distrusted(run.Trials) {
			h.Warnings = append(h.Warnings, RunWarning{i, w})
		}
	}
	for i := range h.Series {
		s := &h.Series[i]
		s.Changes = []ChangePoint{}
		changes := stats.Changes(s.Values, alpha)
		for _, c := range changes {
			s.Changes = append(s.Changes, ChangePoint{s.Runs[c.At], c.P, c.Before, c.After})
		}
		if r, ok := stats.Dependent(s.Values, changes, alpha); ok {
			s.Autocorrelation = &r
		}
	}
	return h, nil
}

// relation is how a metric of a treatment is followed.
type relation struct {
	value      float64
	relativeTo string // empty: the value itself
	followed   bool
}

func (h *History) add(number int, run *Run, index map[string]int) {
	key, treatments := keyOf(run.Plan), run.Treatments()
	byID := map[string]*Treatment{}
	for i := range treatments {
		byID[treatments[i].ID] = &treatments[i]
	}
	for i, t := range treatments {
		if t.Control {
			continue
		}
		for _, name := range metric.Headlines() {
			e, ok := t.Metrics[name]
			if !ok {
				continue
			}
			for _, rel := range relations(name, e, byID[t.Baseline]) {
				k := key(run.Plan.Treatments[i]) + " " + name + " " + rel.relativeTo
				at, known := index[k]
				if !known {
					at = len(h.Series)
					index[k] = at
					s := Series{Treatment: t.ID, Factors: t.Factors, Metric: name, Unit: e.Unit, RelativeTo: rel.relativeTo, Followed: rel.followed}
					if rel.relativeTo != "" {
						s.Unit = ""
					}
					h.Series = append(h.Series, s)
				}
				s := &h.Series[at]
				s.Runs, s.Values = append(s.Runs, number), append(s.Values, rel.value)
			}
		}
	}
}

// relations of a metric's estimate. Only what grows with a slow processor is divided by the
// baseline: by its own value, or where that is zero, as for a data plane, by its total.
func relations(name string, e Estimate, baseline *Treatment) []relation {
	own := relation{value: e.Estimate, followed: true}
	m, _ := metric.Lookup(name)
	if baseline == nil || !m.SpeedSensitive {
		return []relation{own}
	}
	for _, by := range []string{name, metric.Of(metric.Base(name), "total")} {
		if b, ok := baseline.Metrics[by]; ok && b.Estimate > 0 {
			own.followed = false
			return []relation{own, {value: e.Estimate / b.Estimate, relativeTo: by, followed: true}}
		}
	}
	return []relation{own}
}
