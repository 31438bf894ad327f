package tare_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/must"
)

var update = flag.Bool("update", false, "write the generated pages again")

const (
	metricsPage  = "docs/reference/metrics.md"
	metricsBegin = "<!-- metrics: go test . -run TestMetricsPage -update -->\n"
	generatedEnd = "<!-- end -->\n"
)

// metricList is every metric, one line a family.
func metricList() string {
	resource := partsOf(metric.CPUPerRequest)
	latency := partsOf(metric.Latency)
	var b strings.Builder
	for _, m := range metric.Rows() {
		name, unit := m.Name, m.Unit
		if len(m.Parts) == 1 {
			name = metric.Of(name, m.Parts[0])
		}
		if unit == "" {
			unit = "ratio"
		}
		fmt.Fprintf(&b, "- `%s` (%s", name, unit)
		switch m.Better {
		case metric.HigherIsBetter:
			b.WriteString(", higher is better")
		case metric.Neither:
			b.WriteString(", neutral")
		}
		fmt.Fprintf(&b, "): %s.", m.Doc)
		switch parts := m.Parts; {
		case m.Routes:
			b.WriteString(" By path of the route.")
		case slices.Equal(parts, resource):
			b.WriteString(" By plane.")
		case len(parts) == len(resource)+1 && slices.Equal(parts[:len(resource)], resource):
			fmt.Fprintf(&b, " By plane, `%s` too.", parts[len(resource)])
		case slices.Equal(parts, latency):
			b.WriteString(" By quantile.")
		case len(parts) > 1:
			fmt.Fprintf(&b, " Parts: `%s`.", strings.Join(parts, "`,`"))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\nPlanes: `%s`.\n\nQuantiles: `%s`.\n", strings.Join(resource, "`, `"), strings.Join(latency, "`, `"))
	return b.String()
}

// partsOf returns the parts of the first row of a family.
func partsOf(base string) []string {
	row, _ := metric.LookupBase(base)
	return row.Parts
}

// The page lists the metrics of the table in the code.
func TestMetricsPage(t *testing.T) {
	b := must.Get(os.ReadFile(metricsPage))(t)
	want := between(t, string(b), metricsBegin, metricList())
	if *update {
		must.OK(t, os.WriteFile(metricsPage, []byte(want), 0o644))
		return
	}
	if string(b) != want {
		t.Errorf("%s is out of date: go test . -run TestMetricsPage -update", metricsPage)
	}
}
