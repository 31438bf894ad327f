package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// sections of the text, in order. A section writes nothing if the report has
// nothing for it.
var sections = []func(text){
	answerSection, headerSection, byHandSection, decisionSection, trendsSection, ladderSection, configurationsSection, treatmentsSection, requestsSection, failuresSection, changesSection, changePartsSection, controlTimesSection, startsSection, expectationsSection, boundariesSection, differencesSection,
	floorSection, smallestSection, partsSection, weightSection, rolesSection, linesSection, slopesSection, costSection, allMetricsSection, latencyMeaningsSection, warningsSection, legendSection,
}

// text is the input of a section: the report, and the page it writes on.
type text struct {
	page *page
	view view
}

// metricSections are the sections of a report on chosen metrics.
var metricSections = []func(text){answerSection, headerSection, allMetricsSection, differencesSection, warningsSection}

// writeText writes the text for a terminal: a short one, or everything. A text longer than a screen ends with the result
// that it begins with.
func writeText(w io.Writer, r *answer.Report, o Options) error {
	switch {
	case o.Metric != "":
		return WriteText(w, r, o)
	case !o.All:
		return writeShort(w, r, o)
	}
	p := newPage(o, false, "")
	writeSections(r, o, p)
	if bytes.Count(p.out.Bytes(), []byte("\n")) > screenLines {
		closingSection(text{p, view{r: r, o: o, label: newLabels(r)}})
	}
	return p.writeTo(w, "report")
}

// WriteText writes every section of the text, as wide as its lines are.
func WriteText(w io.Writer, r *answer.Report, o Options) error {
	p := newPage(o, false, "")
	writeSections(r, o, p)
	return p.writeTo(w, "report")
}

// writeMarkdown writes the sections of the text as GitHub-flavoured Markdown.
func writeMarkdown(w io.Writer, r *answer.Report, o Options) error {
	p := newPage(o, true, "##")
	writeSections(r, Options{All: o.All, Metric: o.Metric}, p)
	return p.writeTo(w, "report")
}

func writeSections(r *answer.Report, o Options, p *page) {
	t := text{page: p, view: view{r: r, o: o, label: newLabels(r)}}
	shown := sections
	if o.Metric != "" {
		shown = metricSections
	}
	for _, section := range shown {
		section(t)
	}
}

// mark points from a figure to the warnings below.
const mark = "!"

// headlines are the metrics that results are judged by, shownMetrics those that reports show without --all.
var headlines, shownMetrics = metric.Headlines(), metric.Shown()

// view selects what a text shows of a report.
type view struct {
	r     *answer.Report
	o     Options
	label labels
	short bool // the text of a few lines, in words that everyone has
}

func newView(r *answer.Report) view { return view{r: r, label: newLabels(r)} }

// imported reports whether another tool made the runs. They are compared
// unpaired, and each boundary gets a headline.
func (v view) imported() bool { return v.r.Method != compare.Paired }

// known reports whether a treatment has the metric.
func (v view) known(name string) bool {
	return slices.ContainsFunc(v.r.Treatments, func(tr compare.Treatment) bool { _, ok := tr.Metrics[name]; return ok })
}

// percent is the confidence, e.g. "95 %".
func (v view) percent() string {
	return fixed(100*v.r.Confidence, decimalsOf(100*v.r.Confidence)) + " %"
}

func decimalsOf(v float64) int {
	if v == float64(int(v)) {
		return 0
	}
	return 1
}

// withoutRate names a treatment by its other factors.
func (v view) withoutRate(f plan.Factors) string {
	return v.label.phrase(f, slices.DeleteFunc(slices.Clone(v.label.factors), func(n string) bool { return n == experiment.RateFactor }))
}

// comparisons returns the shown comparisons of a treatment. The metrics shown without --all
// come first, in the order of shownMetrics, then the others in the order of the metric table.
func (v view) comparisons(treatment string) []compare.Comparison {
	cs := lists.Where(v.r.Comparisons, func(c compare.Comparison) bool { return c.Treatment == treatment && v.shows(c) })
	slices.SortStableFunc(cs, func(a, b compare.Comparison) int { return place(a.Metric) - place(b.Metric) })
	return cs
}

// place of a metric among those shown without --all. The others follow together.
func place(name string) int {
	if i := slices.Index(shownMetrics, name); i >= 0 {
		return i
	}
	return len(shownMetrics)
}

// pairs is the number of pairs of the comparisons shown, and uniform reports
// whether all have the same number.
func (v view) pairs() (n int, uniform bool) {
	n = -1
	for _, c := range v.r.Comparisons {
		switch {
		case c.Control || !v.shows(c):
		case n < 0:
			n = c.N
		case c.N != n:
			return 0, false
		}
	}
	return n, n >= 0
}

// shows reports whether the differences list c: the metrics shown without --all, or all of
// them with it, and never zero against zero.
func (v view) shows(c compare.Comparison) bool {
	if nothing(c.Difference) {
		return false
	}
	if v.o.Metric != "" {
		return metric.Matches(v.o.Metric, c.Metric)
	}
	return v.o.All || slices.Contains(shownMetrics, c.Metric) || slices.Contains(serviceTimes, c.Metric) && serviceOnly(v)
}

// nothing reports whether a comparison has nothing to show: zero against zero.
func nothing(difference *stats.Interval) bool {
	return difference != nil && !difference.Known() && difference.Estimate == 0
}

// concerns reports whether w is about a shown metric.
func (v view) concerns(w figures.Warning) bool {
	if v.o.All || len(w.Metrics) == 0 {
		return true
	}
	return slices.ContainsFunc(append(v.treatmentColumns(), shownMetrics...), func(name string) bool {
		return slices.Contains(w.Metrics, name) || slices.Contains(w.Metrics, metric.Base(name))
	})
}

// estimate is a figure, but one that was reduced as published has no interval.
func (v view) estimate(e compare.Estimate, scale float64) string {
	switch {
	case e.N == 0:
		return unknown
	case v.r.Method == compare.AsPublished:
		return fixed(e.Estimate*scale, 1)
	}
	return figure(e.Interval, scale, warned(e.Warnings, "no-spread"))
}

// treatmentColumn is a column of one metric of treatments. A short text has no legend, so no unknown intervals.
func (v view) treatmentColumn(name string, of []compare.Treatment) column {
	return metricColumn(name, func(scale float64) (cells []string) {
		for _, tr := range of {
			s := cell(tr, name, scale)
			if v.short {
				s = strings.Replace(s, " ±"+unknown, "", 1)
			}
			cells = append(cells, spaced(s, growing(tr, name)))
		}
		return cells
	})
}

// metricColumn is a column of one metric, with the heads of the metric table.
func metricColumn(name string, cells func(scale float64) []string) column {
	m, _ := metric.Lookup(name)
	heads, scale := m.Heads()
	return column{heads: heads[:], cells: cells(scale)}
}

// cell is one figure of a treatment, marked if a warning concerns it.
func cell(tr compare.Treatment, name string, scale float64) string {
	e, ok := tr.Metrics[name]
	if !ok {
		return unknown
	}
	s := figure(e.Interval, scale, warned(e.Warnings, "no-spread"))
	if flagged(e.Warnings) {
		s += mark
	}
	return s
}

func warned(ws []figures.Warning, code string) bool {
	return slices.ContainsFunc(ws, func(w figures.Warning) bool { return w.Code == code })
}

// flagged reports whether a warning deserves a mark beside the figure. An absent
// interval is visible without one.
func flagged(ws []figures.Warning) bool {
	return slices.ContainsFunc(ws, func(w figures.Warning) bool {
		return !slices.Contains([]string{"few-trials", "no-spread", "ratio-undefined", "pairs-lost", "no-interval", "repeated-readings", answer.MemoryGrows, "within-deployments"}, w.Code)
	})
}

// countColumn is the number of trials of each treatment.
func countColumn(of []compare.Treatment) column {
	c := column{heads: []string{"n"}}
	for _, tr := range of {
		c.cells = append(c.cells, fmt.Sprint(tr.N))
	}
	return c
}

// Sizes of a text, in lines.
const (
	shortLines   = 40 // of a report without --all
	screenLines  = 24 // of a terminal
	openingLines = 16 // of the result before the first table
	fewLines     = 6  // of a section, below which a part of it is left out
	fewWarnings  = 4  // of the section of warnings, below which it is left out
)

// Ranks of sections. The differences are the result: they are in every short text, after gates and changes.
const (
	differencesRank = 0
	warningsRank    = 3
)

type shortSection struct {
	rank  int // the room goes to the lowest ranks first
	most  int // lines
	write func(text)
}

// sectionsOf are the sections of the short text, in its order. Those with the rows that the first result rests on have
// room before the warnings. Over several levels the means come before the treatments, the first of which would all be
// baselines.
func sectionsOf(r *answer.Report) []shortSection {
	figures := []shortSection{{4, 14, treatmentsSection}, {differencesRank, 14, differencesSection}}
	if sweeps(r) > 0 {
		figures = []shortSection{{differencesRank, 14, differencesSection}, {2, 20, treatmentsSection}}
	}
	return slices.Concat([]shortSection{
		{1, 20, byHandSection}, {differencesRank, 14, decisionSection}, {1, 14, trendsSection}, {1, 20, costSection}, {1, 20, ladderSection}, {2, 14, expectationsSection}, {1, 14, failuresSection}, {differencesRank, 18, changesSection}, {2, 10, changePartsSection}, {2, 12, controlTimesSection}, {2, 14, startsSection}, {1, 24, backgroundSlopesSection}, {2, 14, boundariesSection},
	}, figures, []shortSection{{6, 14, configurationsSection}, {6, 14, headerSection}, {warningsRank, 8, warningsSection}})
}

// WriteAnswer writes the lines of [Answer], folded, and the table of differences.
func WriteAnswer(w io.Writer, r *answer.Report, o Options) error {
	p := newPage(o, false, "")
	p.short = true
	t := text{p, view{r: r, o: o, label: newLabels(r), short: true}}
	writeAnswer(t, Claims(r))
	differencesSection(t)
	return p.writeTo(w, "answer")
}

// writeShort writes the result, and as much of the sections as there is room for.
func writeShort(w io.Writer, r *answer.Report, o Options) error {
	v := view{r: r, o: o, label: newLabels(r), short: true}
	lines := func(write func(text)) [][]byte {
		p := newPage(o, false, "")
		p.short = true
		write(text{p, v})
		if p.out.Len() == 0 {
			return nil
		}
		return bytes.Split(bytes.Trim(p.out.Bytes(), "\n"), []byte("\n"))
	}
	body := cut(lines(answerSection), openingLines, fewLines)
	if load := LoadLine(r); load != "" && len(body) > 0 {
		body = append(body, lines(func(t text) { t.page.styled(faint, func() { t.page.prose(load) }) })...)
	}
	closing := lines(closingSection)
	more := func(what string) [][]byte {
		return lines(func(t text) {
			t.page.prose("More with --all: " + what + "what the figures mean.")
		})
	}
	rest := more("every metric, the noise, and ")
	complete := rest
	if n := len(r.Warnings); n > 0 {
		rest = more(printable.Counted(n, "warning") + ", every metric, the noise, ")
	}
	room := shortLines - len(body) - len(closing) - len(rest) - 2 // two empty lines
	sections := sectionsOf(r)
	parts := make([][][]byte, len(sections))
	for rank := differencesRank; rank <= 6; rank++ {
		for i, s := range sections {
			if s.rank != rank {
				continue
			}
			few := fewLines
			switch s.rank {
			case warningsRank:
				few = fewWarnings
			case differencesRank:
				few = 0
			}
			parts[i] = cut(lines(s.write), min(s.most, room-1), few)
			if len(parts[i]) > 0 {
				room -= len(parts[i]) + 1
			}
			if s.rank == warningsRank && len(parts[i]) > 0 {
				rest = complete
			}
		}
	}
	for _, part := range parts {
		if len(part) > 0 {
			body = append(append(body, nil), part...)
		}
	}
	body = append(append(body, nil), rest...)
	if len(body) > screenLines {
		body = append(append(body, nil), closing...)
	}
	p := newPage(o, false, "")
	p.out.Write(bytes.TrimLeft(bytes.Join(body, []byte("\n")), "\n"))
	p.line("")
	return p.writeTo(w, "report")
}

// cut returns the first n lines, the last of them the number of lines left out. It returns none of fewer than few lines.
func cut(lines [][]byte, n, few int) [][]byte {
	switch {
	case len(lines) <= n:
		return lines
	case n < max(few, 2):
		return nil
	}
	kept := slices.Clone(lines[:n-1])
	if len(kept[n-2]) == 0 {
		kept = kept[:n-2]
	}
	return append(kept, fmt.Appendf(nil, "  … %s with --all", printable.Counted(len(lines)-len(kept), "more line")))
}

// closingSection repeats the result at the end of a long text. A short text has the first one only.
func closingSection(t text) {
	claims := Claims(t.view.r)
	if len(claims) == 0 {
		return
	}
	t.page.line("")
	rest := claims[len(firstResult(claims)):]
	if t.view.short {
		rest = nil
	}
	writeAnswer(t, append([]Claim{inShort(claims)}, rest...))
}
