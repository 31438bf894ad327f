package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// handMetrics are the columns of a trial that hands changed.
var handMetrics = []string{metric.Rate, metric.ErrorRatio, metric.Latency + "/p50", metric.Latency + "/p99",
	metric.CPUPerRequest + "/app", metric.CPUPerRequest + "/data", metric.CPUCores + "/total"}

// byHandSection has the trials whose services were changed by hand, with the file that would repeat it. No verdict rests on them.
func byHandSection(t text) {
	for _, trial := range t.view.r.Trials {
		if len(trial.HandPhases) == 0 {
			continue
		}
		t.page.heading(fmt.Sprintf("Changed by hand: trial %s (of one trial, without intervals)", trial.ID))
		g := gridOf([]int{1}, "from", "change")
		for _, p := range trial.HandPhases {
			g.row(fixed(p.From, 1)+" s", changeByHand(p.Changes))
		}
		for _, name := range handMetrics {
			if slices.ContainsFunc(trial.HandPhases, func(p figures.HandPhase) bool { _, known := p.Metrics[name]; return known }) {
				g = append(g, metricColumn(name, func(scale float64) []string {
					return lists.Map(trial.HandPhases, func(p figures.HandPhase) string {
						v, known := p.Metrics[name]
						if !known {
							return unknown
						}
						return short(v*scale, 3)
					})
				}))
			}
		}
		t.page.table(g, 2)
		faults, left := repeated(trial.HandPhases)
		if faults != nil {
			t.page.line("")
			t.page.prose("The same by file, valid in each trial:")
			t.page.code(append([]string{"faults:"}, faults...))
		}
		if left != nil {
			t.page.prose("No fault repeats " + printable.Listed(left, 3) + ".")
		}
	}
}

// changeByHand is a change in a table.
func changeByHand(all []result.ByHand) string {
	if len(all) == 0 {
		return none
	}
	words := all[0].Target + " " + printable.Clip(printable.Line(all[0].Patch), 40)
	if len(all) > 1 {
		words += fmt.Sprintf(" and %d more", len(all)-1)
	}
	return words
}

// handFaults are kinds of faults by the field of a service that they change, with the parameter of its value. Fields without
// a parameter have values of several.
var handFaults = map[string]struct{ kind, parameter string }{
	"delay": {"latency", "delay"}, "errors": {"errors", ""}, "rateLimit": {"rate-limit", "rate"}, "cpu": {"cpu-burn", "cpu"}, "memory": {"memory", "memory"},
}

// handSpan is the time for which a field of a replica has a value.
type handSpan struct {
	target, field string
	value         any
	at, to        time.Duration // to is 0 until the end of the trial
}

const (
	handStep = 10 * time.Millisecond
	// handHeal is the time for the heal of a fault before the next one of the same replica.
	handHeal = 50 * time.Millisecond
)

// repeated are the faults of a file that repeat changes by hand, one a line, and the changes that no fault repeats.
func repeated(phases []figures.HandPhase) (faults, left []string) {
	spans := handSpans(phases)
	for i, s := range spans {
		service, replica := s.target, ""
		if dash := strings.LastIndex(s.target, "-"); dash > 0 {
			service, replica = s.target[:dash], s.target[dash+1:]
		}
		of, known := handFaults[s.field]
		parameters, ok := handParameters(of.parameter, s.value)
		beside := slices.ContainsFunc(spans[:i], func(o handSpan) bool {
			return o.target == s.target && o.field != s.field && (o.to == 0 || o.to > s.at)
		})
		if _, err := strconv.Atoi(replica); !known || !ok || beside || err != nil {
			left = append(left, fmt.Sprintf("%s of %s", s.field, s.target))
			continue
		}
		length := ""
		if s.to > 0 {
			length = fmt.Sprintf(", for: %v", max(handStep, s.to-s.at-handHeal))
		}
		faults = append(faults, fmt.Sprintf("  - {kind: %s, %s, at: %v%s, target: {service: %s, replica: %s}}", of.kind, parameters, s.at, length, service, replica))
	}
	return faults, left
}

// handSpans are the values of all fields that hands changed, in the order of their times.
func handSpans(phases []figures.HandPhase) (spans []handSpan) {
	for _, p := range phases {
		for _, h := range p.Changes {
			at := time.Duration(p.From * float64(time.Second))
			if p.From > 0 {
				at += h.At.Sub(p.Changes[0].At)
			}
			at = at.Round(handStep)
			var patch map[string]any
			if json.Unmarshal([]byte(h.Patch), &patch) != nil {
				continue // the change was accepted, so that it is an object
			}
			for _, field := range slices.Sorted(maps.Keys(patch)) {
				ended := false
				for i := range spans {
					if o := &spans[i]; o.target == h.Target && o.field == field && o.to == 0 {
						o.to, ended = at, true
					}
				}
				if !ended || !isNothing(patch[field]) {
					spans = append(spans, handSpan{target: h.Target, field: field, value: patch[field], at: at})
				}
			}
		}
	}
	slices.SortStableFunc(spans, func(a, b handSpan) int { return cmp.Compare(a.at, b.at) })
	return spans
}

// isNothing reports whether a value takes back what a field did.
func isNothing(value any) bool {
	if all, ok := value.(map[string]any); ok {
		value = all["ratio"]
	}
	return value == nil || value == 0.0 || value == "0s" || value == "0"
}

// handParameters are the parameters of a fault from the value of a field. A distribution is none.
func handParameters(name string, value any) (string, bool) {
	switch v := value.(type) {
	case float64:
		return fmt.Sprintf("%s: %v", name, v), name != ""
	case string:
		return fmt.Sprintf("%s: %s", name, v), name != "" && !strings.ContainsAny(v, "(){}:, ")
	case map[string]any:
		all := []string{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if number, ok := v[key].(float64); ok {
				all = append(all, fmt.Sprintf("%s: %v", key, number))
			}
		}
		return strings.Join(all, ", "), name == "" && len(all) == len(v) && len(all) > 0
	}
	return "", false
}
