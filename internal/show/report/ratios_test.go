package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
)

// A report on treatments that were loaded at once begins with a ratio, has no difference in µs, and names the
// figures of single treatments for what they are.
func TestRatiosOnly(t *testing.T) {
	s := small(nil)
	s.Name, s.Order, s.Treatments = "at-once", "together", s.Treatments[1:3] // the A/A pair's twin, and envoy
	s.Treatments[1].Baseline = ""
	plain, twin := s.Treatments[1], s.Treatments[0]
	plain.ID, plain.Baseline, plain.Factors, plain.Truth.DataUS = "envoy-plaintext", "envoy", map[string]any{"mesh": "envoy-plaintext"}, 120
	twin.ID, twin.Baseline, twin.Factors, twin.Truth = "envoy-control", "envoy", map[string]any{"mesh": "envoy", "control": true}, s.Treatments[1].Truth
	s.Treatments = append(s.Treatments[1:2:2], twin, plain)
	r := reportOf(t, s)
	var out bytes.Buffer
	must.OK(t, WriteText(&out, r, Options{}))
	text := out.String()
	first, rest, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(first, "envoy-plaintext needs 0.7") || !strings.Contains(first, "x (0.") || !strings.Contains(first, ") as much CPU per request as with envoy") {
		t.Errorf("first line %q", first)
	}
	for _, want := range []string{"Differences in CPU per request of less than ", " % would not be seen.", "loaded at once, each with its part of the rate: only ratios", "which is not its cost alone",
		"Ratio to the baseline (loaded at once, paired within blocks, 4 pairs each", "Noise (", "only ratios of treatments are valid"} {
		if !strings.Contains(rest, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	_, after, _ := strings.Cut(text, "Ratio to the baseline")
	sections, _, _ := strings.Cut(after, "Smallest difference that")
	if strings.Contains(sections, "µs\n") || strings.Contains(sections, " µs ") || strings.Contains(sections, "difference") && !strings.Contains(sections, "any difference here is noise") {
		t.Errorf("a difference in a unit of cost:\n%s", sections)
	}
	if floor, smallest := strings.Join(FloorWords(r), ", "), SmallestShown(r); !strings.Contains(floor, "x (") || !strings.HasSuffix(smallest, " %") {
		t.Errorf("floor %q, smallest %q", floor, smallest)
	}
	for _, f := range Formats(Options{}) {
		if f.Write == nil {
			continue
		}
		out.Reset()
		if err := f.Write(&out, r); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		if f.Name == "json" && !strings.Contains(out.String(), `"ratios_only": true`) {
			t.Error("JSON does not name it")
		}
	}
	narrow, columns := Formats(Options{Width: 60}), 0
	out.Reset()
	must.OK(t, narrow[0].Write(&out, r))
	for line := range strings.Lines(out.String()) {
		columns = max(columns, len([]rune(line)))
	}
	if columns > 61 {
		t.Errorf("%d columns on a terminal of 60:\n%s", columns, out.String())
	}
}
