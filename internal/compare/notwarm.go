package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/figures"
)

// notWarm is the warning of a trial in which the CPU of a request still fell.
const notWarm = "not-warm"

// coldIn is the warning of a trial that programs were not warm, if it concerns a metric.
func coldIn(t figures.Measured, name string) (w figures.Warning, cold bool) {
	i := slices.IndexFunc(t.Warnings, func(w figures.Warning) bool {
		return w.Code == notWarm && figures.NamesMetric(w.Metrics, name)
	})
	if i < 0 {
		return w, false
	}
	return t.Warnings[i], true
}

// warmIn are the trials without that warning.
func warmIn(trials []figures.Measured, name string) []figures.Measured {
	return slices.DeleteFunc(slices.Clone(trials), func(t figures.Measured) bool {
		_, cold := coldIn(t, name)
		return cold
	})
}

// doubtOfCold is the doubt of an outcome by trials in which programs were not warm, nil if warm pairs alone decide alike.
func (w gateTest) doubtOfCold(run *Run, outcome Outcome, trials map[string][]figures.Measured) (doubts []string) {
	warm := maps.Clone(trials)
	var cold []string
	for _, id := range []string{w.treatment.Baseline, w.treatment.ID} {
		warm[id] = warmIn(trials[id], w.gate.Metric)
		if n := len(trials[id]) - len(warm[id]); n > 0 {
			first := slices.IndexFunc(trials[id], func(t figures.Measured) bool { _, is := coldIn(t, w.gate.Metric); return is })
			warning, _ := coldIn(trials[id][first], w.gate.Metric)
			cold = append(cold, fmt.Sprintf("%d of %d trials of %s: %s", n, len(trials[id]), id, warning.Message))
		}
	}
	if w.counts != nil || cold == nil {
		return nil
	}
	if d, _ := w.judge(run, w.treatment.ID, w.treatment.Baseline, warm); d.Outcome == outcome {
		return nil
	}
	return []string{notWarm + ": " + strings.Join(cold, "; ")}
}
