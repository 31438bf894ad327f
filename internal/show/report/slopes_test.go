package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/must"
)

// The costs of the items of a background are the answer, with the first levels of other factors, and short texts name what was
// simulated. A cost that is not shown is left out.
func TestSlopesOfBackground(t *testing.T) {
	between := func(low, estimate, high float64) stats.Interval {
		return stats.Interval{Estimate: estimate, Low: &low, High: &high}
	}
	slope := func(option, metric string, services float64, per stats.Interval) compare.Slope {
		return compare.Slope{Mesh: "istiod", Option: option, Factors: plan.Factors{"backgroundServices": services}, Metric: metric, PerItem: per, None: between(1, 2, 3), N: 12, Levels: 3, From: 10, To: 300}
	}
	proxies, changes := experiment.BackgroundProxiesFactor, experiment.BackgroundChangesFactor
	r := &answer.Report{Slopes: []compare.Slope{
		slope(proxies, "cpu_cores/control", 100, between(415e-6, 459e-6, 503e-6)),
		slope(proxies, "memory_mib/control", 100, between(-1, 0.2, 1.4)),
		slope(proxies, "push_last_ms/p50", 100, between(0.097, 0.137, 0.177)),
		slope(proxies, "cpu_cores/control", 1000, between(0.1, 0.2, 0.3)),
		slope(changes, "cpu_cores/control", 100, between(-1, 0, 1)),
		slope("clusters", "memory_mib/data", 100, between(1, 2, 3)),
	}}
	r.Setup.Background = "Simulated: the proxies"
	lines := sentencesOf(slopeClaims(newView(r)))
	if want := "Each simulated proxy of istiod adds 459 µcores (415 to 503) of CPU (control plane) and 137 µs (97 to 177) of push to all proxies (p50). No cost of a change per second is shown."; len(lines) != 1 || lines[0] != want {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
	if of := slopeClaims(newView(r))[0].Of[0].Of; len(of) != 2 || of[0].Amount.Estimate != 459e-6 || of[1].Metric != "push_last_ms/p50" {
		t.Errorf("parts %+v", of)
	}
	var out bytes.Buffer
	p := newPage(Options{}, false, "")
	backgroundSlopesSection(text{p, view{r: r, label: newLabels(r), short: true}})
	must.OK(t, p.writeTo(&out, "report"))
	must.Contain(t, out.String(), "10–300", "+459 ±44 µcores", "Simulated: the proxies.")
	r.Slopes[4].Warnings = []figures.Warning{{Code: "not-a-line"}}
	if lines := sentencesOf(slopeClaims(newView(r))); !strings.HasSuffix(lines[0], " The cost of a change per second depends on their number.") {
		t.Errorf("a figure that lies on no line has the answer %q", lines)
	}
	r.Slopes[4].Option = proxies
	for items, cores := range map[float64]float64{10: 0.012, 300: 0.9, 100: 0.2} {
		r.Treatments = append(r.Treatments, compare.Treatment{ID: fmt.Sprint(items), Factors: plan.Factors{"mesh": "istiod", "backgroundServices": 100.0, proxies: items}, Metrics: map[string]compare.Estimate{"cpu_cores/control": {N: 3, Interval: stats.Interval{Estimate: cores}}}})
	}
	r.Slopes = r.Slopes[4:]
	if lines := sentencesOf(slopeClaims(newView(r))); len(lines) != 1 || lines[0] != "The cost of a simulated proxy depends on their number: CPU, control plane is 0.012 cores with 10 and 0.90 cores with 300." {
		t.Errorf("a figure that lies on no line has the answer %q", lines)
	}
	r.Slopes = r.Slopes[1:]
	if lines := sentencesOf(slopeClaims(newView(r))); lines != nil {
		t.Errorf("an option of a mesh has the answer %q", lines)
	}
	p = newPage(Options{}, false, "")
	backgroundSlopesSection(text{p, view{r: r, label: newLabels(r), short: true}})
	if p.out.Len() > 0 {
		t.Errorf("an option of a mesh is in a short text:\n%s", p.out.String())
	}
}
