package figures

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// recorded are the warnings the run itself attached to the trial.
func recorded(r *result.Record) []Warning {
	var ws []Warning
	for _, w := range r.Warnings {
		ws = append(ws, Warning{Code: w.Code, Message: w.Message, Hint: w.Hint, Invalidates: w.Invalidates, Withholds: w.Withholds, Metrics: w.Metrics})
	}
	return ws
}

// distrusted are the warnings about records that were changed or contradict
// themselves, over all trials. Each names a trial.
func Distrusted(trials []Measured) []Warning {
	var t Tally
	for _, trial := range trials {
		for _, w := range trial.Warnings {
			if slices.Contains([]string{result.RecordContradicts, result.RecordAltered, result.LatencyAltered}, w.Code) {
				t.Add(trial.ID, w)
			}
		}
	}
	var ws []Warning
	for _, code := range t.order {
		e := t.seen[code]
		others := ""
		if e.Trials > 1 {
			others = fmt.Sprintf(" and %d others", e.Trials-1)
		}
		w := e.Warning
		w.Message = fmt.Sprintf("trial %s%s: %s", e.first, others, w.Message)
		ws = append(ws, w)
	}
	return ws
}

// tally adds up warnings of trials: one entry a code, in order of appearance,
// with the number of trials and the first message as the example.
type Tally struct {
	order []string
	seen  map[string]*tallied
}

type tallied struct {
	Warning
	first  string // the trial of the message
	differ bool   // other trials have other messages
	last   string
}

// add counts w once a trial.
func (t *Tally) Add(trial string, w Warning) {
	if t.seen == nil {
		t.seen = map[string]*tallied{}
	}
	e := t.seen[w.Code]
	if e == nil {
		e = &tallied{Warning: w, first: trial}
		e.Metrics = slices.Clone(w.Metrics)
		t.seen[w.Code] = e
		t.order = append(t.order, w.Code)
	}
	if w.Message != e.Message {
		e.differ = true
	}
	if severity(w) > severity(e.Warning) { // one code has several limits: the message is of the one that matters
		e.Message, e.Hint, e.Withholds, e.Invalidates, e.first = w.Message, w.Hint, w.Withholds, w.Invalidates, trial
	}
	if len(w.Metrics) == 0 || len(e.Metrics) == 0 {
		e.Metrics = nil
	}
	for _, m := range w.Metrics {
		if e.Metrics != nil && !slices.Contains(e.Metrics, m) {
			e.Metrics = append(e.Metrics, m)
		}
	}
	if e.last != trial {
		e.Trials++
		e.last = trial
	}
}

// severity orders the effects of a warning on its trial.
func severity(w Warning) int {
	switch {
	case w.Invalidates:
		return 2
	case w.Withholds:
		return 1
	}
	return 0
}

func (t *Tally) Warnings() []Warning {
	ws := make([]Warning, 0, len(t.order))
	for _, code := range t.order {
		e := t.seen[code]
		w := e.Warning
		if e.differ {
			w.Message = fmt.Sprintf("%s (trial %s, for one)", w.Message, e.first)
		}
		ws = append(ws, w)
	}
	return ws
}

// concerns reports whether w is about a metric. One about every metric is listed with
// the treatment and is not repeated here.
func Concerns(w Warning, name string) bool {
	return len(w.Metrics) > 0 && NamesMetric(w.Metrics, name)
}

// about reports whether metrics, as base or full names, names the metric. An
// empty list names every metric.
func NamesMetric(metrics []string, name string) bool {
	return len(metrics) == 0 || slices.Contains(metrics, name) || slices.Contains(metrics, metric.Base(name))
}

// union is a and the warnings of b with other codes.
func UnionWarnings(a, b []Warning) []Warning {
	out := slices.Clone(a)
	for _, w := range b {
		if !slices.ContainsFunc(out, func(o Warning) bool { return o.Code == w.Code }) {
			out = append(out, w)
		}
	}
	return out
}
