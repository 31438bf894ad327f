package answer

import (
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// ChangeTimes are bounds of the time of a kind of change with a treatment, over the changes of all valid trials.
// They are of a quantile. Where trials have too few changes for a median, they are of the shortest and the longest. Other changes may take less or longer.
type ChangeTimes struct {
	Treatment string   `json:"treatment"`
	Kind      string   `json:"kind"`
	Changes   int      `json:"changes"`            // in all valid trials
	Quantile  float64  `json:"quantile,omitempty"` // 0.5 or 0.99
	FromMS    float64  `json:"from_ms"`            // lower bound
	ToMS      *float64 `json:"to_ms,omitempty"`    // upper bound, absent if unknown
}

// changeTimes are of the kinds whose time is in an answer.
func changeTimes(run *compare.Run, treatments []compare.Treatment) (all []ChangeTimes) {
	for _, t := range treatments {
		for _, kind := range metric.ChangeKinds() {
			if t.Control || kind.Time == "" {
				continue
			}
			var spans []*result.Span
			var times []stats.Bounded
			bounds := stats.EarliestBounds
			for i, trial := range run.Trials {
				if trial.Treatment != t.ID || !trial.Valid || trial.Control {
					continue
				}
				for _, c := range run.Records[i].Changes {
					if s := c.Time(); c.Kind == kind.Name && s != nil {
						spans, times = append(spans, s), append(times, s.Bounded())
						if s == c.LastOld {
							bounds = stats.LatestBounds
						}
					}
				}
			}
			if len(spans) == 0 {
				continue
			}
			if t.Metrics[metric.Of(kind.Time, kind.Name)].N == 0 {
				from, to := extent(spans)
				all = append(all, ChangeTimes{t.ID, kind.Name, len(spans), 0, from, to})
				continue
			}
			for _, q := range metric.ChangeQuantiles {
				low, high, _ := bounds(times, q.Q)
				if t.Metrics[metric.Of(kind.Time, kind.Name+q.End)].N > 0 && !math.IsInf(high, 1) {
					all = append(all, ChangeTimes{t.ID, kind.Name, len(spans), q.Q, low, &high})
				}
			}
		}
	}
	return all
}

// extent returns the lowest lower end of spans, and the highest upper end, nil if one has none.
func extent(spans []*result.Span) (from float64, to *float64) {
	from, to = spans[0].AfterMS, spans[0].BeforeMS
	for _, s := range spans[1:] {
		from = min(from, s.AfterMS)
		if to == nil || s.BeforeMS == nil {
			to = nil
		} else {
			to = new(max(*to, *s.BeforeMS))
		}
	}
	return from, to
}

// ChangeMedians are the settings with which each kind of change has a median: changes.count and phases.measure.
type ChangeMedians struct {
	Each           int     `json:"each"` // changes of a kind that a trial needs
	Count          int     `json:"count"`
	MeasureSeconds float64 `json:"measure_seconds"`
}

// changeMedians is nil if the experiment has enough changes, or none.
func changeMedians(f *compare.File) *ChangeMedians {
	each := metric.ChangeQuantiles[0].From
	count := each * len(f.Changes.Kinds)
	if f.Changes.Count >= count {
		return nil
	}
	last := time.Duration(f.Changes.Every) * time.Duration(count+1)
	return &ChangeMedians{each, count, max(time.Duration(f.Phases.Measure), last).Seconds()}
}

// Unrestarted is a kind of restart with a treatment without a mesh: requests that failed then failed without a change.
type Unrestarted struct {
	Treatment string `json:"treatment"`
	Kind      string `json:"kind"`
}

func unrestarted(run *compare.Run) (all []Unrestarted) {
	for i, trial := range run.Trials {
		for _, c := range run.Records[i].Changes {
			if of := (Unrestarted{trial.Treatment, c.Kind}); c.NothingRestarted() && !slices.Contains(all, of) {
				all = append(all, of)
			}
		}
	}
	return all
}

// VersionMove has the versions before and after version changes with a treatment: tags of the images that the cluster ran.
type VersionMove struct {
	Treatment  string `json:"treatment"`
	From       string `json:"from"` // versions of the control plane
	To         string `json:"to"`
	Changes    int    `json:"changes"`
	Proxies    int    `json:"proxies"`              // new proxies of all these changes
	Incomplete int    `json:"incomplete,omitempty"` // changes after which a new proxy did not run the new version
}

func versionMoves(run *compare.Run) (all []VersionMove) {
	for i, trial := range run.Trials {
		for _, c := range run.Records[i].Changes {
			if c.Moved == nil || !trial.Valid {
				continue
			}
			same := func(m VersionMove) bool {
				return m.Treatment == trial.Treatment && m.From == c.Moved.From.Version && m.To == c.Moved.To.Version
			}
			at := slices.IndexFunc(all, same)
			if at < 0 {
				at, all = len(all), append(all, VersionMove{Treatment: trial.Treatment, From: c.Moved.From.Version, To: c.Moved.To.Version})
			}
			all[at].Changes++
			all[at].Proxies += c.Moved.Proxies
			if len(c.Moved.Left) > 0 {
				all[at].Incomplete++
			}
		}
	}
	return all
}
