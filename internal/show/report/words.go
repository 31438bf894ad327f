package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
)

// Words are the names, figures and sentences of the text format, for formats that
// draw the report. So a page and the text have the same digits.
type Words struct {
	Names     map[string]string            `json:"names"`              // of treatments by ID; short, by the factors that vary
	Against   map[string]string            `json:"against"`            // of baselines, by the treatment's ID
	Constant  string                       `json:"constant,omitempty"` // factors that are the same in all treatments
	Metrics   []MetricWords                `json:"metrics"`            // of any treatment, in the order of reports
	Shown     []string                     `json:"shown"`              // metrics that reports show without --all
	Planes    []PlaneWords                 `json:"planes"`             // that add up to the total
	Estimates map[string]map[string]string `json:"estimates"`          // by treatment and metric: "473.2 ±7.4"
	Growing   map[string]map[string]string `json:"growing,omitempty"`  // marks of memory that was still growing: "↑192 MiB/min"
	// Comparisons are in the order of the report's.
	Comparisons []ComparisonWords `json:"comparisons"`
	// Ladders are by ladder, metric and increment. The whole is the last one.
	Ladders [][][]ComparisonWords `json:"ladders,omitempty"`
}

// MetricWords are a metric's title and the unit in which reports print it.
type MetricWords struct {
	Name  string  `json:"name"`
	Title string  `json:"title"`
	Unit  string  `json:"unit"`
	Scale float64 `json:"scale"` // from the metric's unit to this one
}

// PlaneWords are a plane's part of a metric's name, and its title.
type PlaneWords struct {
	Part  string `json:"part"`
	Title string `json:"title"`
}

// ComparisonWords are the cells of one difference.
type ComparisonWords struct {
	Difference    string `json:"difference"`
	Interval      string `json:"interval"`
	Ratio         string `json:"ratio"`
	RatioInterval string `json:"ratioInterval"`
	Verdict       string `json:"verdict"`
}

// Both are a difference with its interval: "+142.1 ms ±2.9", "-84 % (-88 to -78 %)".
func (w ComparisonWords) Both() string {
	if w.Interval == "" || strings.HasPrefix(w.Interval, "±") {
		return strings.TrimSpace(w.Difference + " " + w.Interval)
	}
	return w.Difference + " (" + w.Interval + ")"
}

// WordsOf are the words of a report.
func WordsOf(r *answer.Report) Words {
	v := newView(r)
	w := Words{
		Names: map[string]string{}, Against: map[string]string{}, Estimates: map[string]map[string]string{},
		Constant: strings.Join(v.label.constant, ", "), Shown: shownMetrics, Comparisons: []ComparisonWords{},
	}
	for _, m := range r.Metrics() {
		q := quantityOf(m.Name)
		w.Metrics = append(w.Metrics, MetricWords{m.Name, q.name, q.unit, q.scale})
	}
	for _, p := range metric.TotalParts() {
		w.Planes = append(w.Planes, PlaneWords{p.Name, p.InWords()})
	}
	for _, tr := range r.Treatments {
		w.Names[tr.ID] = v.label.withControl(tr)
		if tr.Baseline != "" {
			w.Against[tr.ID] = v.label.against(tr, r)
		}
		cells := map[string]string{}
		for name, e := range tr.Metrics {
			q := quantityOf(name)
			cells[name] = v.estimate(e, q.scale)
			if mark := growing(tr, name); mark != "" {
				if w.Growing == nil {
					w.Growing = map[string]map[string]string{}
				}
				if w.Growing[tr.ID] == nil {
					w.Growing[tr.ID] = map[string]string{}
				}
				w.Growing[tr.ID][name] = mark
			}
		}
		w.Estimates[tr.ID] = cells
	}
	for _, c := range r.Comparisons {
		w.Comparisons = append(w.Comparisons, cellsOf(v, c))
	}
	w.Ladders = ladderWords(r)
	return w
}

// cellsOf are the cells of a comparison. One change has one interval: a gate's is the one that decided it, and a highest rate's the
// one of its ratio, which the first sentence has.
func cellsOf(v view, c compare.Comparison) ComparisonWords {
	if c.Metric == dataCost && !isShown(c.Verdict) && v.isMetered(v.treatment(c.Treatment), c) {
		w := comparisonWords(c)
		w.Verdict = "measured directly"
		return w
	}
	c = c.Judged(v.r.Confidence)
	w := comparisonWords(c)
	w.Difference, w.Verdict = spaced(w.Difference, growingApart(v.r, c)), reasonOrVerdict(v.r, c)
	for _, d := range v.r.Decisions {
		if d.Metric == c.Metric && d.Treatment == c.Treatment && d.Baseline == c.Baseline && d.Change != nil {
			w.Difference, w.Interval, _ = strings.Cut(changeInterval(d), " (")
			w.Difference = spaced(w.Difference, growthMark(d.MemoryGrowth))
			w.Interval, w.Ratio, w.RatioInterval, w.Verdict = strings.TrimSuffix(w.Interval, ")"), none, "", "the gate "+outcomeVerbs[d.Outcome]
			return w
		}
	}
	if c.Metric == metric.Capacity && c.Ratio != nil {
		half, known := c.Ratio.HalfWidth()
		d := min(0, decimals(100*(c.Ratio.Estimate-1), 100*half, known))
		percent := func(of float64) string { return signed(100*(of-1), d) }
		w.Difference, w.Interval, w.Ratio, w.RatioInterval = percent(c.Ratio.Estimate)+" %", "", none, ""
		if c.Ratio.Known() {
			w.Interval = percent(*c.Ratio.Low) + " to " + percent(*c.Ratio.High) + " %"
		}
	}
	return w
}

func comparisonWords(c compare.Comparison) ComparisonWords {
	q := quantityOf(c.Metric)
	w := ComparisonWords{Difference: unknown, Ratio: none, Verdict: verdictWords(c)}
	if c.Difference != nil {
		w.Difference = difference(*c.Difference, q.scale) + q.differenceUnit()
		w.Interval = bounds(*c.Difference, q.scale, signed)
	}
	if c.Ratio != nil {
		w.Ratio, w.RatioInterval = ratio(*c.Ratio), ratioBounds(*c.Ratio)
	}
	return w
}

// Header is the trials, load and machine of an experiment, a sentence each.
func Header(r *answer.Report) []string {
	t := text{view: newView(r)}
	constant := ""
	if len(t.view.label.constant) > 0 {
		constant = "In all treatments: " + strings.Join(t.view.label.constant, ", ")
	}
	lines := []string{sentence(trialsSentence(t), loadSentence(t)), r.Setup.Way, r.Setup.Background, constant, machineSentence(t)}
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// FloorWords are the differences of baselines from themselves in CPU, the least first: "+0.2 ±1.2 µs", of several each with its
// treatment. Without a pair there are none.
func FloorWords(r *answer.Report) []string {
	label, q := newLabels(r), quantityOf(answerCost)
	floor := slices.DeleteFunc(slices.Clone(r.Floor), func(f compare.Floor) bool { return f.Metric != answerCost || f.Difference == nil })
	slices.SortStableFunc(floor, func(a, b compare.Floor) int { return cmp.Compare(a.Difference.Estimate, b.Difference.Estimate) })
	var words []string
	for _, f := range floor {
		of := f.Difference
		if c, ok := r.Find(f.Treatment, f.Metric); ok {
			of = c.Judged(r.Confidence).Difference
		}
		words = append(words, strings.TrimSpace(difference(*of, q.scale)+" "+bounds(*of, q.scale, signed))+q.unitText())
	}
	for i := range words {
		if len(words) > 1 {
			words[i] += " (" + label.describe(floor[i].Factors) + ")"
		}
	}
	return words
}
