package analysis

import (
	"fmt"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
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
	Warning
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

// Series is one headline metric of one treatment over the runs.
type Series struct {
	Treatment string        `json:"treatment"`
	Factors   plan.Factors  `json:"factors"`
	Metric    string        `json:"metric"`
	Unit      string        `json:"unit"`
	Runs      []int         `json:"runs"` // indices in History.Runs of the values
	Values    []float64     `json:"values"`
	Changes   []ChangePoint `json:"changes"`
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
		r, err := Analyze(d, o)
		if err != nil {
			return nil, err
		}
		h.add(i, r, d.Plan(), index)
		for _, w := range distrusted(r) {
			h.Warnings = append(h.Warnings, RunWarning{i, w})
		}
	}
	for i := range h.Series {
		s := &h.Series[i]
		s.Changes = []ChangePoint{}
		for _, c := range stats.Changes(s.Values, alpha) {
			s.Changes = append(s.Changes, ChangePoint{s.Runs[c.At], c.P, c.Before, c.After})
		}
	}
	return h, nil
}

func (h *History) add(run int, r *Report, p plan.Plan, index map[string]int) {
	key := keyOf(p)
	for i, t := range r.Treatments {
		if t.Control {
			continue
		}
		for _, name := range metric.Headlines() {
			e, ok := t.Metrics[name]
			if !ok {
				continue
			}
			k := key(p.Treatments[i]) + " " + name
			at, known := index[k]
			if !known {
				at = len(h.Series)
				index[k] = at
				h.Series = append(h.Series, Series{Treatment: t.ID, Factors: t.Factors, Metric: name, Unit: e.Unit})
			}
			s := &h.Series[at]
			s.Runs, s.Values = append(s.Runs, run), append(s.Values, e.Estimate)
		}
	}
}
