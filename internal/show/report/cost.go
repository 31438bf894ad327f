package report

import (
	_ "embed"
	"fmt"
	"strconv"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// costSection prices the treatments, if prices were given.
func costSection(t text) {
	c := t.view.r.Cost
	if c == nil {
		return
	}
	t.page.heading(fmt.Sprintf("Cost in resources and money (± half of the %s interval; GiB and pods if known)", t.view.percent()))
	unitCostsTable(t, c)
	proxyCostsTable(t, c)
	controlCosts(t, c)
	scenarioTables(t, c)
	referencesTable(t, c)
}

func unitCostsTable(t text, c *answer.Cost) {
	g := gridOf([]int{0, 1}, "\ntreatment", "\nof", "cores per\n1000 req/s", "GiB per\n1000 req/s", "\npods", "cores\nper pod", "GiB\nper pod")
	for _, u := range c.Units {
		pods := unknown
		if u.Pods > 0 {
			pods = fmt.Sprint(u.Pods)
		}
		g.row(t.view.label.describe(u.Factors), string(u.Bill), amount(u.Cores), amount(u.GiB), pods, amount(u.PodCores), amount(u.PodGiB))
	}
	t.page.table(g, 2)
}

// proxyCostsTable has the data plane in the units of its makers: one proxy, one proxied call.
func proxyCostsTable(t text, c *answer.Cost) {
	g := gridOf([]int{0}, "\ntreatment", "calls per\nrequest", "proxied\nper request", "\nproxies", "CPU µs per\nproxied call", "cores per proxy\nat 1000 req/s", "MiB\nper proxy", "idle cores\nper proxy", "idle MiB\nper proxy")
	counted := true
	for _, u := range c.Units {
		if u.Proxy == nil {
			continue
		}
		p := u.Proxy
		counted = counted && p.Counted
		g.row(t.view.label.describe(u.Factors), number(float64(p.Calls)), number(p.Proxied), number(float64(p.Proxies)), amount(p.CallUS), amount(p.Cores), amount(p.MiB), amount(p.IdleCores), amount(p.IdleMiB))
	}
	if g.empty() {
		return
	}
	t.page.heading("Data plane per proxy and proxied call, the load generator's own proxy included")
	t.page.table(g, 1)
	t.page.line("")
	s := "A call through two sidecars is proxied twice. Idle: the intercept of the line through three or more rates, otherwise the CPU outside the slices of interleaved trials. Idle memory: before the load."
	if !counted {
		s += " The proxied calls are from the topology: the proxies' counters are unknown."
	}
	t.page.prose(s)
}

// controlCosts are sentences: a control plane is divided by what it serves.
func controlCosts(t text, c *answer.Cost) {
	any := false
	for _, u := range c.Units {
		if p := u.Proxy; p != nil && p.ControlCoresPerProxy != nil {
			any = true
			t.page.prose(fmt.Sprintf("Control plane of %s: %s cores and %s MiB per proxy (%d), %s cores and %s MiB per service (%d).", t.view.label.describe(u.Factors),
				amount(p.ControlCoresPerProxy), amount(p.ControlMiBPerProxy), p.Proxies, amount(p.ControlCoresPerService), amount(p.ControlMiBPerService), p.Services))
		}
	}
	if any {
		publishedControl(t, c)
	}
}

// publishedControl are published figures of control planes, divided in the same way.
func publishedControl(t text, c *answer.Cost) {
	for _, r := range c.References {
		if r.ControlCores > 0 && r.Proxies > 0 {
			t.page.prose(fmt.Sprintf("%s published %.2g cores and %.2g MiB per proxy (%d): %s; %s.", r.Who, r.ControlCores/float64(r.Proxies), r.ControlMiB/float64(r.Proxies), r.Proxies, r.What, r.Conditions))
		}
	}
}

func scenarioTables(t text, c *answer.Cost) {
	for _, s := range c.Prices.Scenarios {
		title := fmt.Sprintf("%s: %s requests/s", s.Name, grouped(s.Rate))
		if s.Pods > 0 {
			title += " over " + printable.Counted(s.Pods, "pod")
		}
		t.page.heading(title)
		g := gridOf([]int{0, 1, 5}, "treatment", "of", "cores", "GiB", c.Prices.Currency+" per month", "how")
		for _, x := range c.Scenarios {
			if x.Scenario != s.Name {
				continue
			}
			g.row(t.view.label.describe(x.Factors), string(x.Bill), amount(x.Cores), amount(x.GiB), amount(x.Money), x.How)
		}
		t.page.table(g, 2)
	}
	t.page.line("")
	t.page.prose(priceSentence(t, "A core", c.Prices.Core))
	if g := c.Prices.GiB; g != nil {
		t.page.prose(priceSentence(t, "A GiB", *g))
	} else {
		t.page.prose("The file has no price for memory: the money excludes it.")
	}
	t.page.prose("The data plane includes the load generator's own proxy." + controlPlaneNote(t))
}

func priceSentence(t text, what string, p answer.Price) string {
	return fmt.Sprintf("%s: %s %s per month (%s, %s)", what, strconv.FormatFloat(p.Month, 'f', -1, 64), t.view.r.Cost.Prices.Currency, p.Source, p.Date)
}

func amount(i *stats.Interval) string {
	if i == nil {
		return unknown
	}
	_, known := i.HalfWidth()
	return figure(*i, 1, !known)
}

// number is a count, or unknown if zero.
func number(v float64) string {
	if v == 0 {
		return unknown
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// controlPlaneNote qualifies the cost of a control plane, if there is one.
func controlPlaneNote(t text) string {
	for _, tr := range t.view.r.Treatments {
		if e, ok := tr.Metrics[metric.CPUCores+"/control"]; ok && e.Estimate > 0 {
			return " The control plane is scaled like the rest, which overstates it: it grows with services and pods, not with requests."
		}
	}
	return ""
}

// grouped writes a rate with a space between thousands.
func grouped(v float64) string {
	s := fixed(v, decimalsOf(v))
	for i := len(fixed(float64(int64(v)), 0)) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

func referencesTable(t text, c *answer.Cost) {
	t.page.heading("Published figures of others per proxy, for orientation: measured under other conditions")
	g := gridOf([]int{0, 1, 5, 6}, "\nwho", "\nwhat", "cores per proxy\nat 1000 req/s", "MiB\nper proxy", "added p90/p99\nms", "\ndate", "\nconditions")
	elsewhere := 0
	for _, r := range c.References {
		if r.Per != "proxy" { // it cannot be divided by proxies, whose number is not published
			if r.Per == "data plane" {
				elsewhere++
			}
			continue
		}
		g.row(r.Who, r.What, publishedValue(r.Cores, 2), publishedValue(r.MiB, 0), latencyPublished(r), r.Date, r.Conditions)
	}
	t.page.table(g, 2)
	if elsewhere > 0 {
		t.page.line("")
		t.page.prose(fmt.Sprintf("%d published %s of whole data planes cannot be divided by proxies: --format json has them.", elsewhere, printable.Plural(elsewhere, "figure")))
	}
}

func latencyPublished(r answer.Reference) string {
	if r.P90MS == 0 && r.P99MS == 0 {
		return none
	}
	s := publishedValue(r.P90MS, 2) + "/" + publishedValue(r.P99MS, 2)
	if r.Proxies > 1 {
		s += fmt.Sprintf(" (%d proxies)", r.Proxies)
	}
	return s
}

func publishedValue(v float64, decimals int) string {
	if v == 0 {
		return none
	}
	return fixed(v, decimals)
}

//go:embed references.yaml
var referencesYAML []byte

// References are published figures for orientation: none was
// measured under the conditions of another.
func References() ([]answer.Reference, error) {
	doc, err := strict.Parse("references.yaml", referencesYAML)
	if err != nil {
		return nil, err
	}
	var file struct {
		References []answer.Reference `yaml:"references"`
	}
	doc.Decode(&file)
	return file.References, doc.Err()
}
