package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/predict"
)

// Forecasts are the answer of tare forecast.
type Forecasts struct {
	Schema    string             `json:"schema"` // tare.forecast/v1
	Graph     string             `json:"graph"`  // name of the application
	Rates     map[string]float64 `json:"rates"`  // requests/s from outside, by service
	Currency  string             `json:"currency,omitempty"`
	CPUAlone  bool               `json:"cpu_alone,omitempty"` // memory has no price
	Forecasts []predict.Forecast `json:"forecasts"`           // one for each mesh that was measured
	// Command measures the rates, sizes and protocols of the graph.
	Command string    `json:"command"`
	Next    []NextRun `json:"next,omitempty"` // what would narrow the ranges, or measure what is missing
}

// NewForecasts returns forecasts from runs, with the command that measures the graph's rates with the experiment of the first
// run, and the runs that would narrow them.
func NewForecasts(from []string, g predict.Graph, rates map[string]float64, all []predict.Forecast, next []predict.Step, prices *answer.Prices) (Forecasts, error) {
	flow, err := g.Spread(rates)
	if err != nil {
		return Forecasts{}, err
	}
	f := Forecasts{Schema: "tare.forecast/v1", Graph: g.Name, Rates: rates, Forecasts: all, Command: g.Command(flow, from[0])}
	if prices != nil {
		f.Currency, f.CPUAlone = prices.Currency, prices.GiB == nil
	}
	if slices.ContainsFunc(all, func(x predict.Forecast) bool { return x.Unmeasured || x.Refused != "" }) {
		f.Next = []NextRun{{predict.Step{What: "what was not measured: every rate, size and protocol of the graph"}, f.Command}}
	}
	f.Next = append(f.Next, nextRuns("", next)...)
	return f, nil
}

// ForecastsForms lists every form of forecasts, the default first.
func ForecastsForms() []Form[Forecasts] {
	return Safe(
		Form[Forecasts]{"text", "what the sidecars would cost, in all and by service", writeForecasts},
		Form[Forecasts]{"json", "everything, schema tare.forecast/v1", func(w io.Writer, f Forecasts) error {
			return WriteAnswered(w, briefOfClaim(forecastedClaim(f, f.Forecasts[0]), 0), f)
		}},
	)
}

func writeForecasts(w io.Writer, f Forecasts) error {
	for i, x := range f.Forecasts {
		if i > 0 {
			fmt.Fprintln(w)
		}
		facts := ForecastFacts(f, x)
		if x.Refused != "" {
			facts = nil // the sentence has it
		}
		writeFacts(w, forecastedClaim(f, x).Sentence, facts)
		writeServices(w, ForecastServices(x))
	}
	writeNext(w, f.Next)
	return nil
}

// forecastedClaim is what a mesh would add, or why there is no forecast.
func forecastedClaim(f Forecasts, x predict.Forecast) Claim {
	c, facts := Claim{Form: forecastClaim, Subject: f.label().describe(x.Factors), Baseline: "none", Metric: "cpu", Relation: answer.Predicted, Amount: intervalOf(x.CPU), Unit: "cores"}, ForecastFacts(f, x)
	words := sentenceWords{"about": ForecastFor(f, x), "name": facts[0].Name, "cpu": cpuAmount(x.CPU), "memory": memoryAmount(x.Memory)}
	switch {
	case x.Refused != "":
		c.Form, c.Relation, c.Amount, c.Reason = forecastNone, compare.Insufficient, nil, facts[0].Text
		words["reason"] = c.Reason
	case x.Month != nil:
		words["month"] = ", " + moneyWords(f, *x.Month) + " a month" + cpuAlone(f.CPUAlone)
	default:
		words["month"] = ", money unknown: no prices (--prices)"
	}
	return c.fill(words)
}

// writeServices writes a table, if it has rows.
func writeServices(w io.Writer, t TextTable) {
	if len(t.Rows) == 0 {
		return
	}
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{t.Heads}, t.Rows...) {
		fmt.Fprintln(tw, "  "+strings.Join(row, "\t"))
	}
	tw.Flush()
	fmt.Fprintln(w)
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

// ForecastFor names a mesh and the application around which it is forecast.
func ForecastFor(f Forecasts, x predict.Forecast) string {
	services := ""
	if len(x.Services) > 0 {
		services = printable.Counted(len(x.Services), "service") + ", "
	}
	return fmt.Sprintf("%s around %s (%s%s)", f.label().describe(x.Factors), f.Graph, services, entryWords(f.Rates))
}

func (f Forecasts) label() labels {
	return labelsOf(nil, lists.Map(f.Forecasts, func(x predict.Forecast) plan.Factors { return x.Factors }))
}

// ForecastFacts are the rows of a forecast, the costs first.
func ForecastFacts(f Forecasts, x predict.Forecast) (facts []Fact) {
	row := func(name, text string) { facts = append(facts, Fact{name, text}) }
	if x.Refused != "" {
		row("no forecast", strings.ReplaceAll(x.Refused, "\n", "; "))
		return facts
	}
	name := "CPU of sidecars"
	if len(x.Shared) > 0 {
		name = "CPU of proxies"
	}
	row(name, cpuAmount(x.CPU))
	row("memory", spaced(memoryAmount(x.Memory), forecastMark(x)))
	for _, s := range x.Shared {
		row("of these "+s.Kind, fmt.Sprintf("%s and %s, as many as measured, with %.4g requests/s", cpuAmount(s.CPU), memoryAmount(s.Memory), s.Rate))
	}
	if x.Growing != nil {
		row("growing", growingWords(*x.Growing))
	}
	if x.Latency != nil {
		row("median response", "+"+between(x.Latency.Estimate, x.Latency.Low, x.Latency.High, " ms", 2)+", by calls to "+printable.And(x.Path)+" one after another")
	} else {
		row("median response", "no forecast: "+x.NoLatency)
	}
	if x.Month != nil {
		row("a month, as used", moneyWords(f, *x.Month))
	}
	without := "the application itself, the control plane (" + cmp.Or(x.NoControl, "the runs have none") + "), "
	if c := x.Control; c != nil {
		without = "the application itself, "
		row("control plane", controlWords(f, *c))
		row("its configuration", configuredWords(*c))
		row("its range", causeWords(c.CPU, cpuWidened))
		if x.NoControl != "" {
			row("not used", x.NoControl)
		}
		if x.Total != nil {
			row("a month in all", moneyWords(f, *x.Total)+", of proxies and control plane")
		}
	}
	row("in brackets", "the range of a new deployment: "+nineteen(x.Confidence)+" of 20 lie in it")
	row("why the CPU has a range", causeWords(x.CPU, cpuWidened))
	row("why the memory has a range", causeWords(x.Memory, mibWidened))
	row("not in it", without+"and the waiting of requests for one another")
	row("from", strings.Join(append([]string{fmt.Sprintf("%s, measured %d times (blocks)", printable.And(x.From), x.Blocks)}, f.label().constant...), ", "))
	return facts
}

// nineteen is a confidence as a number of 20 deployments.
func nineteen(confidence float64) string { return fmt.Sprintf("%.3g", 20*confidence) }

// ForecastServices is the table of a forecast's services, with the causes of their ranges.
func ForecastServices(x predict.Forecast) TextTable {
	t := TextTable{Title: "Sidecars of each service", Heads: []string{"service", "requests/s", "calls/s", "CPU", "memory", "range of CPU: deployments differ", "the curve"}}
	more := []struct {
		head string
		of   func(predict.Causes) float64
	}{
		{"counted calls", func(c predict.Causes) float64 { return c.Graph }}, {"rate not measured", func(c predict.Causes) float64 { return c.Range }}, {"connections", func(c predict.Causes) float64 { return c.Connections }},
	}
	for _, cause := range more {
		if cause.of(x.CPU.Causes) > 0 {
			t.Heads = append(t.Heads, cause.head)
		}
	}
	for _, s := range x.Services {
		name := s.Service
		if s.Replicas > 1 {
			name += fmt.Sprintf(" (%d replicas)", s.Replicas)
		}
		row := []string{name, fmt.Sprintf("%.4g", s.Rate), fmt.Sprintf("%.4g", s.Calls), cpuAmount(s.CPU), spaced(memoryAmount(s.Memory), forecastMark(x)), cpuWidened(s.CPU.Causes.Deployment), cpuWidened(s.CPU.Causes.Curve)}
		for _, cause := range more {
			if cause.of(x.CPU.Causes) > 0 {
				row = append(row, cpuWidened(cause.of(s.CPU.Causes)))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// mibWidened is half of a range of memory that comes from one cause.
func mibWidened(mib float64) string { return fmt.Sprintf("±%.1f MiB", mib) }

// cpuWidened is half of a range of CPU that comes from one cause.
func cpuWidened(half float64) string {
	if half == 0 {
		return "0"
	}
	return "±" + cores(half)
}

// cores is CPU with two digits at least, as a request does not have them.
func cores(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 0.01:
		return fmt.Sprintf("%.2gm", n*1000)
	}
	return cpuQuantity(n)
}

func entryWords(rates map[string]float64) string {
	words := lists.Map(slices.Sorted(maps.Keys(rates)), func(name string) string { return fmt.Sprintf("%s requests/s at %s", Level(rates[name]), name) })
	return printable.And(words)
}

// causeWords are the half width of an interval, and the half widths from each cause alone.
func causeWords(a predict.Amount, widened func(half float64) string) string {
	text := fmt.Sprintf("%s, from deployments that differ (alone %s), the curve (%s)", widened((a.High-a.Low)/2), widened(a.Causes.Deployment), widened(a.Causes.Curve))
	for _, cause := range []struct {
		name string
		half float64
	}{
		{"counted calls", a.Causes.Graph}, {"rates below the measured ones", a.Causes.Range}, {"unknown connections", a.Causes.Connections},
		{fmt.Sprintf("called services that no run has, none to %.2g MiB each", 2*predict.AssumedCalled), a.Causes.Called},
	} {
		if cause.half > 0 && widened(cause.half) != widened(math.SmallestNonzeroFloat64) { // not printed as zero
			text += fmt.Sprintf(", %s (%s)", cause.name, widened(cause.half))
		}
	}
	return text
}

// controlWords are the costs of a control plane.
func controlWords(f Forecasts, c predict.ControlCost) string {
	text := fmt.Sprintf("CPU %s and memory %s", cpuAmount(c.CPU), memoryAmount(c.Memory))
	if c.Month != nil {
		text += ", " + moneyWords(f, *c.Month) + " a month"
	}
	return text
}

// configuredWords are the numbers of what a control plane configures: at which its cost is, and in the application.
func configuredWords(c predict.ControlCost) string {
	var at, wanted []string
	for _, x := range c.Configured {
		words := func(n float64) string {
			name := x.Name
			if n == 1 {
				name = strings.Replace(strings.Replace(name, "proxies", "proxy", 1), "services", "service", 1)
			}
			return Level(n) + " " + name
		}
		switch {
		case x.Levels > 1 && *x.Wanted < x.From:
			at = append(at, words(x.At)+" (the fewest measured)")
		default:
			at = append(at, words(x.At))
		}
		if x.Wanted != nil && *x.Wanted != x.At {
			wanted = append(wanted, words(*x.Wanted))
		}
	}
	text := fmt.Sprintf("%s, from %s", printable.And(at), c.From)
	if wanted != nil {
		text += "; the application has " + printable.And(wanted)
	}
	if !c.Grows {
		text += ". It grows with these, which the run does not show, and not with requests"
	}
	return text
}

// forecastMark is the mark of memory that was still growing in the measured runs. The growth is of one sidecar.
func forecastMark(x predict.Forecast) string {
	if x.Growing == nil {
		return ""
	}
	return upward
}

func cpuAmount(a predict.Amount) string {
	return fmt.Sprintf("%s (%s to %s)", cores(a.Estimate), cores(a.Low), cores(a.High))
}

func memoryAmount(a predict.Amount) string {
	return between(a.Estimate, math.Floor(a.Low), math.Ceil(a.High), " MiB", 0)
}

func moneyWords(f Forecasts, a predict.Amount) string {
	return between(a.Estimate, a.Low, a.High, " "+f.Currency, 2)
}
