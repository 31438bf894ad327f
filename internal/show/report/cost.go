package report

import (
	"fmt"
	"strconv"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/metric"
)

// costSection prices the treatments, if prices were given.
func costSection(t text) {
	c := t.r.Cost
	if c == nil {
		return
	}
	t.heading(fmt.Sprintf("Cost in resources and money (± half of the %s interval; GiB and pods if known)", t.percent()))
	unitCostsTable(t, c)
	scenarioTables(t, c)
	referencesTable(t, c)
}

func priceSentence(t text, what string, p analysis.Price) string {
	return fmt.Sprintf("%s: %s %s a month (%s, %s)", what, strconv.FormatFloat(p.Month, 'f', -1, 64), t.r.Cost.Prices.Currency, p.Source, p.Date)
}

func amount(i *stats.Interval) string {
	if i == nil {
		return unknown
	}
	_, known := i.HalfWidth()
	return figure(*i, 1, !known)
}

func unitCostsTable(t text, c *analysis.Cost) {
	heads := [][]string{{"", "treatment"}, {"", "of"}, {"cores per", "1000 req/s"}, {"GiB per", "1000 req/s"}, {"", "pods"}, {"cores", "per pod"}, {"GiB", "per pod"}}
	columns := make([]column, len(heads))
	for i, h := range heads {
		columns[i] = column{heads: h, left: i < 2}
	}
	for _, u := range c.Units {
		pods := unknown
		if u.Pods > 0 {
			pods = fmt.Sprint(u.Pods)
		}
		for i, cell := range []string{t.label.of(u.Factors), string(u.Bill), amount(u.Cores), amount(u.GiB), pods, amount(u.PodCores), amount(u.PodGiB)} {
			columns[i].cells = append(columns[i].cells, cell)
		}
	}
	t.table(columns, 2)
}

func scenarioTables(t text, c *analysis.Cost) {
	for _, s := range c.Prices.Scenarios {
		title := fmt.Sprintf("%s: %s requests/s", s.Name, grouped(s.Rate))
		if s.Pods > 0 {
			title += fmt.Sprintf(" over %d pods", s.Pods)
		}
		t.heading(title)
		heads := []string{"treatment", "of", "cores", "GiB", c.Prices.Currency + " a month", "how"}
		columns := make([]column, len(heads))
		for i, h := range heads {
			columns[i] = column{heads: []string{h}, left: i < 2 || i == len(heads)-1}
		}
		for _, x := range c.Scenarios {
			if x.Scenario != s.Name {
				continue
			}
			for i, cell := range []string{t.label.of(x.Factors), string(x.Bill), amount(x.Cores), amount(x.GiB), amount(x.Money), x.How} {
				columns[i].cells = append(columns[i].cells, cell)
			}
		}
		t.table(columns, 2)
	}
	t.line("")
	t.prose(priceSentence(t, "A core", c.Prices.Core))
	if g := c.Prices.GiB; g != nil {
		t.prose(priceSentence(t, "A GiB", *g))
	} else {
		t.prose("Memory has no price in the file and is not part of the money.")
	}
	t.prose("The data plane includes the load generator's own proxy." + controlPlaneNote(t))
}

// controlPlaneNote qualifies the cost of a control plane, if there is one.
func controlPlaneNote(t text) string {
	for _, tr := range t.r.Treatments {
		if e, ok := tr.Metrics[metric.CPUCores+"/control"]; ok && e.Estimate > 0 {
			return " The control plane is scaled like the rest, which overstates it: it grows with services and pods, hardly with requests."
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

func referencesTable(t text, c *analysis.Cost) {
	t.heading("Published figures of others, for orientation: measured under other conditions")
	heads := []string{"who", "what", "cores per 1000 req/s", "MiB", "date", "conditions"}
	columns := make([]column, len(heads))
	for i, h := range heads {
		columns[i] = column{heads: []string{h}, left: i < 2 || i > 3}
	}
	for _, r := range c.References {
		mib := unknown
		if r.MiB > 0 {
			mib = fixed(r.MiB, 0)
		}
		for i, cell := range []string{r.Who, r.What, fixed(r.Cores, 2), mib, r.Date, r.Conditions} {
			columns[i].cells = append(columns[i].cells, cell)
		}
	}
	t.table(columns, 1)
}
