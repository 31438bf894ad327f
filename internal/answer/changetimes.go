package answer

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
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

// ChangeParts is where the time of a kind of change went with a treatment, in ms: means of trials. Control plane and proxies
// count the parts themselves, of every fifth change. They are a diagnosis beside the measured time.
type ChangeParts struct {
	Treatment    string         `json:"treatment"`
	Kind         string         `json:"kind"`
	Changes      int            `json:"changes"`            // changes of the means
	LeftOut      int            `json:"left_out,omitempty"` // changes left out: their parts are longer than the whole, or in no order
	Parts        []ChangePart   `json:"parts,omitempty"`
	Whole        stats.Interval `json:"whole_ms"`      // of the same changes, as probes showed it
	ResolutionMS float64        `json:"resolution_ms"` // how much longer the whole and the last part may be
}

// ChangePart is a part of the time of a change.
type ChangePart struct {
	Name string         `json:"name"`
	MS   stats.Interval `json:"ms"`
}

// addChangeParts adds what the parts of the mesh count of changes.
func (r *Report) addChangeParts(confidence float64) {
	for i := range r.Treatments {
		order, kinds := grouped(r.Trials, r.Treatments[i].ID, func(t figures.Trial) []figures.ChangeParts { return t.ChangeParts }, func(p figures.ChangeParts) string { return p.Kind })
		for _, kind := range order {
			p := partsOver(kinds[kind], confidence)
			p.Treatment, p.Kind = r.Treatments[i].ID, kind
			r.ChangeParts = append(r.ChangeParts, p)
		}
	}
}

// partsOver takes the mean over the trials that know the most parts.
func partsOver(all []figures.ChangeParts, confidence float64) (p ChangeParts) {
	most := 0
	for _, one := range all {
		p.LeftOut += one.LeftOut
		most = max(most, len(one.Parts))
	}
	var whole []float64
	parts := make([][]float64, most)
	for _, one := range all {
		if most == 0 || len(one.Parts) < most {
			continue
		}
		p.Changes += one.Changes
		p.ResolutionMS += one.ResolutionMS
		whole = append(whole, one.WholeMS)
		for i, part := range one.Parts {
			parts[i] = append(parts[i], part.MS)
			if len(whole) == 1 {
				p.Parts = append(p.Parts, ChangePart{Name: part.Name})
			}
		}
	}
	if len(whole) == 0 {
		return p
	}
	p.ResolutionMS /= float64(len(whole))
	p.Whole = stats.MeanInterval(whole, confidence).Interval
	for i := range p.Parts {
		p.Parts[i].MS = stats.MeanInterval(parts[i], confidence).Interval
	}
	return p
}

// ControlTimes is how long a stage of the control plane took with a treatment, in ms. The control plane counts it itself, of all its
// work in the measure phase: changes of the experiment, of its background, and of others. It is a diagnosis beside the measured times.
type ControlTimes struct {
	Treatment string         `json:"treatment"`
	Stage     string         `json:"stage"`
	Count     int64          `json:"count"`   // times of all valid trials
	Mean      stats.Interval `json:"mean_ms"` // of the means of trials
	P50       *Bounds        `json:"p50_ms,omitempty"`
	P99       *Bounds        `json:"p99_ms,omitempty"`
}

// Bounds contain a quantile: it is in one bucket of a histogram.
type Bounds struct {
	FromMS float64  `json:"from_ms"`
	ToMS   *float64 `json:"to_ms,omitempty"` // absent beyond the last bucket
}

// addControlTimes adds what control planes count of their stages.
func (r *Report) addControlTimes(confidence float64) {
	for i := range r.Treatments {
		stages, by := grouped(r.Trials, r.Treatments[i].ID, func(t figures.Trial) []result.ControlTime { return t.ControlTimes },
			func(t result.ControlTime) string { return t.Stage })
		for _, stage := range stages {
			of := ControlTimes{Treatment: r.Treatments[i].ID, Stage: stage}
			var means []float64
			within := map[float64]int64{}
			for _, t := range by[stage] {
				of.Count += t.Count
				means = append(means, 1000*t.Seconds/float64(t.Count))
				for _, b := range t.Buckets {
					within[b.UpTo] += b.Count
				}
			}
			of.Mean = stats.MeanInterval(means, confidence).Interval
			for _, q := range metric.ChangeQuantiles {
				if of.Count < int64(q.From) {
					continue
				}
				if bounds := boundsOf(within, of.Count, q.Q); q.Q == 0.5 {
					of.P50 = bounds
				} else {
					of.P99 = bounds
				}
			}
			r.ControlTimes = append(r.ControlTimes, of)
		}
	}
}

// boundsOf finds the bucket with a quantile of n times. within has the times in each bucket, by its upper bound in seconds.
func boundsOf(within map[float64]int64, n int64, q float64) *Bounds {
	rank := int64(math.Ceil(q * float64(n)))
	from, seen := 0.0, int64(0)
	for _, bound := range slices.Sorted(maps.Keys(within)) {
		if seen += within[bound]; seen >= rank {
			return &Bounds{1000 * from, new(1000 * bound)}
		}
		from = bound
	}
	return &Bounds{FromMS: 1000 * from}
}
