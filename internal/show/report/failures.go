package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/analysis"
)

// failureColumns are what the table of failures shows.
var failureColumns = []struct {
	metric string
	heads  [2]string
	scale  float64
}{
	{"error_ratio", [2]string{"failed", "%"}, 100},
	{"requests_lost", [2]string{"requests", "that failed"}, 1},
	{"longest_outage_s", [2]string{"longest", "outage, s"}, 1},
	{"recovery_s", [2]string{"time to", "recover, s"}, 1},
	{"timeouts", [2]string{"", "time-outs"}, 1},
	{"mesh_retries", [2]string{"retries", "of the mesh"}, 1},
	{"mesh_timeouts", [2]string{"time-outs", "of the mesh"}, 1},
}

// failures is the table of what failed, where faults were injected or an outage was seen.
func (t *text) failures() {
	worth := func(tr analysis.Treatment) bool {
		_, faults := tr.Metrics["recovery_s"]
		outage := tr.Metrics["longest_outage_s"]
		return faults || outage.Estimate > 0
	}
	if !slices.ContainsFunc(t.r.Treatments, worth) {
		return
	}
	t.title("What failed")
	columns := t.label.columns(t.r.Treatments)
	labels := len(columns)
	for _, h := range failureColumns {
		c := column{heads: h.heads[:]}
		known := false
		for _, tr := range t.r.Treatments {
			_, has := tr.Metrics[h.metric]
			known = known || has
			c.cells = append(c.cells, cell(tr, h.metric, h.scale))
		}
		if known {
			columns = append(columns, c)
		}
	}
	t.table(columns, labels, "  ")
}

// expectations is the table of what was expected, and whether it holds.
func (t *text) expectations() {
	if len(t.r.Expectations) == 0 {
		return
	}
	t.title("What was expected of each trial")
	treatments := map[string]analysis.Treatment{}
	for _, tr := range t.r.Treatments {
		treatments[tr.ID] = tr
	}
	columns := []column{{heads: []string{"treatment"}, left: true}, {heads: []string{"expected"}, left: true},
		{heads: []string{"holds"}, left: true}, {heads: []string{"in trials"}}, {heads: []string{"measured"}}}
	for _, e := range t.r.Expectations {
		for i, s := range []string{t.label.withControl(treatments[e.Treatment]), e.Expect, verdictOf(e), fmt.Sprintf("%d of %d", e.Held, e.N), span(e)} {
			columns[i].cells = append(columns[i].cells, s)
		}
	}
	t.table(columns, 2, "  ")
	for _, e := range t.r.Expectations {
		if e.Held < e.N && len(e.Values) < e.N {
			t.warning(fmt.Sprintf("%s: %s: %s", e.Treatment, e.Expect, e.Detail), "")
		}
	}
}

func verdictOf(e analysis.Expectation) string {
	switch {
	case e.Held == e.N:
		return "yes"
	case e.Held == 0:
		return "NO"
	}
	return "not always"
}

// span is the least and the most that was measured over the trials.
func span(e analysis.Expectation) string {
	if len(e.Values) == 0 {
		return unknown
	}
	low, high := fmt.Sprintf("%.5g", slices.Min(e.Values)), fmt.Sprintf("%.5g", slices.Max(e.Values))
	s := low
	if low != high {
		s += " to " + high
	}
	return strings.TrimSpace(s + " " + e.Unit)
}
