package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// quantity is a metric as reports print it.
type quantity struct {
	name  string
	unit  string
	scale float64 // from the metric's unit to this one
}

// differenceUnit is the unit of differences: percentages differ by percentage points.
func (q quantity) differenceUnit() string {
	if q.unit == "%" {
		return " points"
	}
	return q.unitText()
}

func (q quantity) unitText() string {
	if q.unit == "" {
		return ""
	}
	return " " + q.unit
}

func quantityOf(name string) quantity {
	m, ok := metric.Lookup(name)
	if !ok {
		return quantity{name: name, scale: 1}
	}
	unit, scale := m.Display()
	return quantity{name: m.Title(), unit: unit, scale: scale}
}

// labels names treatments by the factors that vary.
type labels struct {
	factors  []string          // that vary
	constant []string          // common to all treatments, e.g. "rate 1000"
	names    map[string]string // of levels
}

// VaryingFactors lists the factors with several levels, in the order of labels.
func VaryingFactors(r *answer.Report) []string { return newLabels(r).factors }

func newLabels(r *answer.Report) labels {
	return labelsOf(r.Names, lists.Map(r.Treatments, func(t compare.Treatment) plan.Factors { return t.Factors }))
}

// labelsOf are the labels of treatments by their factors. names are those of levels.
func labelsOf(names map[string]string, treatments []plan.Factors) labels {
	levels := map[string]map[string]string{}
	for _, factors := range treatments {
		for f, v := range factors {
			if f == plan.ControlFactor { // the label marks the A/A pair
				continue
			}
			if levels[f] == nil {
				levels[f] = map[string]string{}
			}
			levels[f][Level(v)] = f + " " + LevelWords(f, v)
		}
	}
	l := labels{names: names}
	known := slices.SortedFunc(maps.Keys(levels), byRank)
	for _, f := range known {
		if len(levels[f]) > 1 {
			l.factors = append(l.factors, f)
			continue
		}
		for _, words := range levels[f] {
			l.constant = append(l.constant, words)
		}
	}
	// One factor names the treatments even if all are alike.
	if len(l.factors) == 0 && len(known) > 0 {
		l.factors, l.constant = known[:1], l.constant[1:]
	}
	return l
}

// byRank orders factors as the experiment file does. Other names follow in alphabetical order.
func byRank(a, b string) int {
	order := experiment.FactorNames()
	rank := func(f string) int {
		if i := slices.Index(order, f); i >= 0 {
			return i
		}
		return len(order)
	}
	return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
}

// Level is a factor's level in words.
func Level(v any) string { return compare.LevelText(v) }

// against names t's baseline by the factors in which it differs from t.
func (l labels) against(t compare.Treatment, r *answer.Report) string {
	for _, b := range r.Treatments {
		if b.ID != t.Baseline {
			continue
		}
		differ := lists.Where(l.factors, func(f string) bool { return Level(b.Factors[f]) != Level(t.Factors[f]) })
		if s := l.phrase(b.Factors, differ); s != "" {
			return s
		}
	}
	return cmp.Or(t.Baseline, "the baseline")
}

// pairWords name the two treatments of a comparison: "envoy against no mesh", "no mesh against itself" for an A/A pair.
func (v view) pairWords(tr compare.Treatment) string {
	if tr.Control {
		return v.label.describe(tr.Factors) + " against itself"
	}
	return fmt.Sprintf("%s against %s", v.label.describe(tr.Factors), v.label.against(tr, v.r))
}

// columns are the labels of treatments: a column a factor.
func (l labels) columns(ts []compare.Treatment) []column {
	if len(l.factors) == 0 {
		c := column{heads: []string{"treatment"}, left: true}
		for _, t := range ts {
			c.cells = append(c.cells, l.withControl(t))
		}
		return []column{c}
	}
	var cs []column
	for i, f := range l.factors {
		c := column{heads: []string{f}, left: i == 0}
		for _, t := range ts {
			v := none
			if x, ok := t.Factors[f]; ok {
				v = l.level(f, x)
				_, text := x.(string)
				c.left = c.left || text
			}
			if i == 0 && t.Control {
				v += ControlSuffix
			}
			c.cells = append(c.cells, v)
		}
		cs = append(cs, c)
	}
	return cs
}

// ControlSuffix follows the name of a baseline that is measured a second time.
const ControlSuffix = " (again)"

// withControl names a treatment: "envoy, rate 100", "no mesh (again), rate 100".
func (l labels) withControl(t compare.Treatment) string {
	s := l.phrase(t.Factors, l.factors)
	if s == "" {
		return cmp.Or(t.ID, unnamed)
	}
	if t.Control {
		first, rest, _ := strings.Cut(s, ", ")
		s = strings.TrimSuffix(first+ControlSuffix+", "+rest, ", ")
	}
	return s
}

// nameOf names a treatment in a sentence, by its levels as they are written: "envoy (rate 100)", "no mesh (again)". Another identifier
// is its own name.
func nameOf(v view, id string) string { return v.label.name(v.treatment(id)) }

func (l labels) name(tr compare.Treatment) string {
	if len(l.factors) == 0 {
		return tr.ID
	}
	first, rest := l.phrase(tr.Factors, l.factors[:1]), []string{l.phrase(tr.Factors, l.factors[1:])}
	if tr.Control {
		rest = append(rest, strings.Trim(ControlSuffix, " ()"))
	}
	if first == "" {
		return tr.ID
	}
	return strings.TrimSuffix(first+" ("+strings.Trim(strings.Join(rest, ", "), ", ")+")", " ()")
}

// Warnings are the warnings of a report, with treatments by name, and commands that name its experiment. JSON has identifiers and FILE.
func Warnings(r *answer.Report) []figures.Warning {
	v, all := newView(r), slices.Clone(r.Warnings)
	for i := range all {
		all[i].Message = named(v, all[i].Message)
		if r.Directory != "" {
			all[i].Hint = strings.ReplaceAll(all[i].Hint, "tare run FILE", RunCommand(r.Directory, nil))
		}
	}
	return all
}

// identifiers may be those of treatments.
var identifiers = regexp.MustCompile(`[A-Za-z0-9_.-]+`)

// named writes treatments by name in a message. An identifier of one word is a name, or a word of the message.
func named(v view, message string) string {
	return identifiers.ReplaceAllStringFunc(message, func(word string) string {
		id := strings.TrimRight(word, ".")
		if !strings.Contains(id, "-") {
			return word
		}
		return nameOf(v, id) + word[len(id):]
	})
}

// TreatmentNames are the names of a plan's treatments in a list, by identifier. levels are the names of levels.
func TreatmentNames(of []plan.Treatment, levels map[string]string) map[string]string {
	l, all := labelsOf(levels, lists.Map(of, func(t plan.Treatment) plan.Factors { return t.Factors })), map[string]string{}
	for _, t := range of {
		all[t.ID] = l.name(compare.Treatment{ID: t.ID, Factors: t.Factors, Control: t.Control})
	}
	return all
}

// unnamed is a treatment in a sentence if it has neither factors nor an identifier.
const unnamed = "this treatment"

// describe returns a treatment in one phrase, which is never empty: "envoy, rate 1000".
func (l labels) describe(f plan.Factors) string { return cmp.Or(l.phrase(f, l.factors), unnamed) }

func (l labels) phrase(f plan.Factors, factors []string) string {
	var words []string
	for _, name := range factors {
		v, ok := f[name]
		switch {
		case !ok:
		case Level(v) == "":
			words = append(words, name+` ""`)
		case l.named(name, v) != "":
			words = append(words, l.named(name, v))
		case name == experiment.MeshFactor:
			words = append(words, meshWords(v))
		case name == experiment.ApplicationFactor, name == "route" && strings.HasPrefix(Level(v), "/"): // names already
			words = append(words, Level(v))
		default:
			words = append(words, name+" "+LevelWords(name, v))
		}
	}
	return strings.Join(words, ", ")
}

// level is a level as the experiment names it.
func (l labels) level(factor string, v any) string {
	if factor == experiment.MeshFactor {
		return cmp.Or(l.named(factor, v), meshWords(v))
	}
	return cmp.Or(l.named(factor, v), LevelWords(factor, v))
}

// meshWords is a level of the factor mesh in words: "no mesh" for "none".
func meshWords(v any) string {
	if level := Level(v); level != "none" {
		return level
	}
	return "no mesh"
}

// named is the experiment's name of a level, "" for none.
func (l labels) named(factor string, v any) string { return l.names[experiment.PrintLevel(factor, v)] }

// factorWords is a factor in a sentence: "request size".
func factorWords(factor string) string { return strings.Replace(factor, "Size", " size", 1) }

// spacedLevel is a level with its unit apart: "16 B", "1 MiB".
func spacedLevel(factor string, v any) string {
	level := LevelWords(factor, v)
	if !strings.HasSuffix(factor, "Size") {
		return level
	}
	if number, ok := strings.CutSuffix(level, "iB"); ok {
		return number[:len(number)-1] + " " + number[len(number)-1:] + "iB"
	}
	return level + " B"
}

// LevelWords is a level in a sentence: a size of 1024 bytes or more in KiB or MiB, as experiment files have it.
func LevelWords(factor string, v any) string {
	size, ok := v.(float64)
	if !ok || !strings.HasSuffix(factor, "Size") || size < 1<<10 || math.Mod(size, 1<<10) != 0 {
		return Level(v)
	}
	if math.Mod(size, 1<<20) == 0 {
		return Level(size/(1<<20)) + "MiB"
	}
	return Level(size/(1<<10)) + "KiB"
}

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
	if c.Metric == dataCost && !isShown(c.Verdict) && addsData(v, v.treatment(c.Treatment), c) {
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
	for _, d := range v.r.Executed {
		if len(v.r.Decisions) > 0 && d.Metric == c.Metric && d.Treatment == c.Treatment {
			w.Difference, w.Interval, _ = strings.Cut(changeInterval(d), " (")
			w.Interval, w.Ratio, w.RatioInterval = strings.TrimSuffix(w.Interval, ")"), none, ""
			w.Verdict = verdictWords(compare.Comparison{Verdict: executedVerdict(v.r, d)})
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
