package report

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/stats"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
)

// Sample is one figure of a family.
type Sample struct {
	Labels []string // name, value, name, value, …
	Value  float64
}

// Family is one metric family of OpenMetrics: a gauge.
type Family struct {
	Name, Help string
	Samples    []Sample
}

// writeOpenMetrics writes gauges in the OpenMetrics text format 1.0. The part of
// a metric's name is the label part, and the label stat is one of estimate, low, high.
// An interval that cannot be given has no samples. Differences and ratios to the
// baseline are families of their own.
func writeOpenMetrics(w io.Writer, r *analysis.Report) error {
	b := bufio.NewWriter(w)
	for _, f := range Families(r) {
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s gauge\n", f.Name, omHelp(f.Help), f.Name)
		for _, s := range f.Samples {
			fmt.Fprintf(b, "%s%s %s\n", f.Name, omLabels(s.Labels), omNumber(s.Value))
		}
	}
	fmt.Fprintln(b, "# EOF")
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write report as OpenMetrics: %w", err)
	}
	return nil
}

// Families are the figures of a report as gauges, in the order of the report.
func Families(r *analysis.Report) []Family {
	var families []Family
	index := map[string]int{}
	family := func(name, help string) *Family {
		i, ok := index[name]
		if !ok {
			i = len(families)
			index[name] = i
			families = append(families, Family{Name: name, Help: help})
		}
		return &families[i]
	}
	factors := factorNames(r)
	label := func(treatment string, f plan.Factors, control bool, name string) []string {
		labels := []string{"experiment", r.Experiment, "treatment", treatment}
		for _, factor := range factors {
			if v, ok := f[factor]; ok {
				labels = append(labels, "factor_"+omName(factor), Level(v))
			}
		}
		if control {
			labels = append(labels, plan.ControlFactor, "true")
		}
		if _, part, ok := strings.Cut(name, "/"); ok {
			labels = append(labels, "part", part)
		}
		return labels
	}
	trials := family("tare_trials", "valid trials of a treatment")
	for _, t := range r.Treatments {
		trials.Samples = append(trials.Samples, Sample{label(t.ID, t.Factors, t.Control, ""), float64(t.N)})
	}
	for _, m := range r.Metrics() {
		help := m.Doc
		if m.Unit != "" {
			help += ", " + m.Unit
		}
		for _, t := range r.Treatments {
			if e, ok := t.Metrics[m.Name]; ok {
				family("tare_"+omName(metric.Base(m.Name)), help).interval(label(t.ID, t.Factors, t.Control, m.Name), e.Interval)
			}
		}
	}
	for _, c := range r.Comparisons {
		base := "tare_" + omName(metric.Base(c.Metric))
		labels := append(label(c.Treatment, c.Factors, c.Control, c.Metric), "against", c.Baseline)
		if c.Difference != nil {
			family(base+"_difference", "difference to the baseline, "+c.Unit).interval(labels, *c.Difference)
		}
		if c.Ratio != nil {
			family(base+"_over_baseline", "ratio to the baseline").interval(labels, *c.Ratio)
		}
	}
	return families
}

func (f *Family) interval(labels []string, i stats.Interval) {
	add := func(stat string, v float64) {
		f.Samples = append(f.Samples, Sample{append(append([]string{}, labels...), "stat", stat), v})
	}
	add("estimate", i.Estimate)
	if i.Known() {
		add("low", *i.Low)
		add("high", *i.High)
	}
}

// omName is s as a name: letters, digits and underscores.
func omName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
}

var omEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func omHelp(s string) string { return omEscapes.Replace(s) }

func omLabels(pairs []string) string {
	if len(pairs) == 0 {
		return ""
	}
	var parts []string
	for i := 0; i+1 < len(pairs); i += 2 {
		parts = append(parts, pairs[i]+`="`+omEscapes.Replace(strings.ToValidUTF8(pairs[i+1], "�"))+`"`)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func omNumber(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
