package tare_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/metric"
)

var update = flag.Bool("update", false, "write the generated pages again")

const (
	metricsPage  = "docs/reference/metrics.md"
	metricsBegin = "<!-- metrics: go test . -run TestMetricsPage -update -->\n"
	generatedEnd = "<!-- end -->\n"
)

// metricList is every metric, one line a family.
func metricList() string {
	resource := metricParts("cpu_us_per_request")
	latency := metricParts("latency_ms")
	var b strings.Builder
	seen := map[string]bool{}
	for _, m := range metric.Rows() {
		base := m.Name
		if seen[base] {
			continue
		}
		seen[base] = true
		unit := m.Unit
		if unit == "" {
			unit = "ratio"
		}
		fmt.Fprintf(&b, "- `%s` (%s", base, unit)
		switch m.Better {
		case metric.HigherIsBetter:
			b.WriteString(", higher is better")
		case metric.Neither:
			b.WriteString(", neutral")
		}
		fmt.Fprintf(&b, "): %s.", m.Doc)
		switch parts := metricParts(base); {
		case m.Routes:
			b.WriteString(" By path of the route.")
		case slices.Equal(parts, resource):
			b.WriteString(" By plane.")
		case slices.Equal(parts, latency):
			b.WriteString(" By quantile.")
		case len(parts) > 0:
			fmt.Fprintf(&b, " Parts: `%s`.", strings.Join(parts, "`,`"))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\nPlanes: `%s`.\n\nQuantiles: `%s`.\n", strings.Join(resource, "`, `"), strings.Join(latency, "`, `"))
	return b.String()
}

// metricParts returns what follows the slash in the names of a family.
func metricParts(base string) []string {
	var parts []string
	for _, m := range metric.All() {
		if part, ok := strings.CutPrefix(m.Name, base+"/"); ok && m.Name != "latency_ms/p98.9" {
			parts = append(parts, part)
		}
	}
	return parts
}

// The page lists the metrics of the table in the code.
func TestMetricsPage(t *testing.T) {
	b, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	want := between(t, string(b), metricsBegin, metricList())
	if *update {
		if err := os.WriteFile(metricsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(b) != want {
		t.Errorf("%s is out of date: go test . -run TestMetricsPage -update", metricsPage)
	}
}
