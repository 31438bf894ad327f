package report

import (
	"fmt"
	"strconv"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
)

// cost shows what the treatments cost, where that was asked for.
func (t *text) cost() {
	c := t.r.Cost
	if c == nil {
		return
	}
	t.title(fmt.Sprintf("What it costs (± half of the %s interval; GiB and pods as far as they are known)", t.percent()))
	t.unitCosts(c)
	t.scenarios(c)
	t.references(c)
}

func (t *text) price(what string, p analysis.Price) string {
	return fmt.Sprintf("%s: %s %s a month (%s, %s)", what, strconv.FormatFloat(p.Month, 'f', -1, 64), t.r.Cost.Prices.Currency, p.Source, p.Date)
}

func amount(i *stats.Interval) string {
	if i == nil {
		return unknown
	}
	_, known := i.HalfWidth()
	return figure(*i, 1, !known)
}

func (t *text) unitCosts(c *analysis.Cost) {
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
	t.table(columns, 2, "  ")
}

func (t *text) scenarios(c *analysis.Cost) {
	for _, s := range c.Prices.Scenarios {
		title := fmt.Sprintf("%s: %s requests/s", s.Name, grouped(s.Rate))
		if s.Pods > 0 {
			title += fmt.Sprintf(" over %d pods", s.Pods)
		}
		t.title(title)
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
		t.table(columns, 2, "  ")
	}
	t.line("")
	t.wrapped(t.price("A core", c.Prices.Core))
	if g := c.Prices.GiB; g != nil {
		t.wrapped(t.price("A GiB", *g))
	} else {
		t.wrapped("Memory has no price in the file, and is not in the money.")
	}
	t.wrapped("The data plane is with the load generator's own proxy." + t.aboutControl())
}

// aboutControl is a word on a control plane, where there is one.
func (t *text) aboutControl() string {
	for _, tr := range t.r.Treatments {
		if e, ok := tr.Metrics["cpu_cores/control"]; ok && e.Estimate > 0 {
			return " The control plane is scaled with the rest, which overstates it: it grows with services and pods, and hardly with requests."
		}
	}
	return ""
}

// grouped writes a rate with its thousands apart.
func grouped(v float64) string {
	s := fixed(v, decimalsOf(v))
	for i := len(fixed(float64(int64(v)), 0)) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

func (t *text) references(c *analysis.Cost) {
	t.title("What others have published, for orientation: none was measured under these conditions")
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
	t.table(columns, 1, "  ")
}
