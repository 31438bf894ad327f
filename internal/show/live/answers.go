package live

import (
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
)

// answers decides when the report on the trials so far is made.
type answers struct {
	ended  int            // trials since the last report
	block  int            // of the last trial that ended
	blocks map[string]int // of trials
	cost   time.Duration  // of the last report
	at     time.Time      // of the last report
}

// mostOfTime bounds the time that reports may take: one part in mostOfTime of the run.
const mostOfTime = 50

// before returns the headline at the beginning of a trial after others have ended, and at the end
// of the run. No trial is deployed then, so that the report disturbs none.
func (a *answers) before(e result.Event, o Options) *Headline {
	if o.Analyze == nil {
		return nil
	}
	if a.blocks == nil {
		a.blocks = map[string]int{}
		for _, t := range o.Plan.Trials {
			a.blocks[t.ID] = t.Block
		}
		for _, r := range o.Recorded { // a resumed run has its difference so far at once
			a.ended, a.block = a.ended+1, max(a.block, r.Block)
		}
	}
	switch e.Kind {
	case result.KindDone:
		a.ended++
		a.block = max(a.block, a.blocks[e.Trial])
		return nil
	case result.KindTrial, result.KindEnd:
	default:
		return nil
	}
	if a.ended == 0 || e.Kind != result.KindEnd && time.Since(a.at) < mostOfTime*a.cost {
		return nil
	}
	began := time.Now()
	r, err := o.Analyze(a.block)
	a.ended, a.at, a.cost = 0, time.Now(), time.Since(began)
	if err != nil {
		return nil // tare report has the error
	}
	return HeadlineOf(r)
}

// Headline is one metric of the report on the trials so far.
type Headline struct {
	Title, Unit string
	Of          map[string]Difference // by treatment
	Levels      map[string]string     // names of levels
	Warnings    []figures.Warning
	Answer      []string
}

// Difference is a treatment's difference to its baseline, in the headline's unit.
type Difference struct {
	Text      string // as reports print it
	Verdict   string
	Estimate  float64
	Low, High float64 // NaN: too few pairs for an interval
	Control   bool
}

// headlines are the metrics in order of preference.
var headlines = []string{metric.Capacity, metric.Of(metric.CPUPerRequest, "total"), metric.Of(metric.Latency, "p50")}

// HeadlineOf is the headline of a report. It has no differences where nothing was compared.
func HeadlineOf(r *answer.Report) *Headline {
	words := report.WordsOf(r)
	h := &Headline{Of: map[string]Difference{}, Levels: r.Names, Warnings: report.Warnings(r), Answer: report.Answer(r)}
	for _, name := range append(slices.Clone(headlines), words.Shown...) {
		i := slices.IndexFunc(words.Metrics, func(m report.MetricWords) bool { return m.Name == name })
		if i < 0 {
			continue
		}
		m := words.Metrics[i]
		for j, c := range r.Comparisons {
			if c.Metric != name || c.Difference == nil {
				continue
			}
			d := Difference{Text: words.Comparisons[j].Both(), Verdict: words.Comparisons[j].Verdict, Estimate: c.Difference.Estimate * m.Scale, Control: c.Control, Low: math.NaN(), High: math.NaN()}
			if c.Difference.Known() {
				d.Low, d.High = *c.Difference.Low*m.Scale, *c.Difference.High*m.Scale
			}
			h.Of[c.Treatment] = d
		}
		if len(h.Of) > 0 {
			h.Title, h.Unit = m.Title, m.Unit
			return h
		}
	}
	return h
}

// Answer sets the headline, and adds warnings with a new code to the messages. Warnings that later trials refute go.
func (b *Board) Answer(h *Headline) {
	b.headline = h
	b.names = report.TreatmentNames(b.plan.Treatments, h.Levels)
	for id, d := range h.Of {
		if half := (d.High - d.Low) / 2; half > 0 {
			b.halves[id] = append(b.halves[id], half)
		}
	}
	for code := range b.warned {
		if !slices.ContainsFunc(h.Warnings, func(w figures.Warning) bool { return w.Code == code }) {
			delete(b.warned, code)
			b.messages = slices.DeleteFunc(b.messages, func(m Message) bool { return m.Warning == code })
		}
	}
	for _, w := range h.Warnings {
		if b.warned[w.Code] || b.premature(w.Code) {
			continue
		}
		b.warned[w.Code] = true
		b.message(Message{Warning: w.Code, Text: "warning " + w.Code + ": " + w.Message, Hint: w.Hint})
	}
}

// premature reports whether a warning is of what the plan still has.
func (b *Board) premature(code string) bool {
	control := func(t plan.Treatment) bool { return t.Control }
	return ofUnfinished[code] || code == "no-floor" && slices.ContainsFunc(b.plan.Treatments, control)
}

// ofUnfinished are warnings that every run has before its end.
var ofUnfinished = map[string]bool{"missing-trials": true, "few-trials": true}
