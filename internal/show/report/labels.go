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
	return labelsOf(r.Names, factorsOf(r.Treatments, func(t compare.Treatment) plan.Factors { return t.Factors }))
}

// factorsOf are the factors of each of several things.
func factorsOf[T any](things []T, of func(T) plan.Factors) (all []plan.Factors) {
	for _, thing := range things {
		all = append(all, of(thing))
	}
	return all
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
		var differ []string
		for _, f := range l.factors {
			if Level(b.Factors[f]) != Level(t.Factors[f]) {
				differ = append(differ, f)
			}
		}
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

// Warnings are the warnings of a report, with treatments by name. JSON has their identifiers.
func Warnings(r *answer.Report) []figures.Warning {
	v, all := newView(r), slices.Clone(r.Warnings)
	for i := range all {
		all[i].Message = named(v, all[i].Message)
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
	l, all := labelsOf(levels, factorsOf(of, func(t plan.Treatment) plan.Factors { return t.Factors })), map[string]string{}
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
