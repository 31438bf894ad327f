package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
)

// shown is one metric of the table of treatments, with two lines of heading.
// Scale turns the metric's unit into the one of the heading.
type shown struct {
	metric string
	heads  [2]string
	scale  float64
}

// headline is what the table shows of a treatment.
var headline = []shown{
	{"cpu_us_per_request/total", [2]string{"CPU/request", "total, µs"}, 1},
	{"cpu_us_per_request/data", [2]string{"CPU/request", "data plane, µs"}, 1},
	{"cpu_cores_per_1000_rps/total", [2]string{"cores per", "1000 req/s"}, 1},
	{"memory_mib/data", [2]string{"memory, data", "plane, MiB"}, 1},
	{"latency_ms/p50", [2]string{"response time", "p50, ms"}, 1},
	{"latency_ms/p99", [2]string{"response time", "p99, ms"}, 1},
	{"rate", [2]string{"answered", "per second"}, 1},
	{"error_ratio", [2]string{"errors", "%"}, 100},
}

// serviceTimes stand beside the response times where a generator knows no other.
var serviceTimes = []shown{
	{"service_ms/p50", [2]string{"service time", "p50, ms"}, 1},
	{"service_ms/p99", [2]string{"service time", "p99, ms"}, 1},
}

// shown are the metrics of this report's table.
func (t *text) shown() []shown {
	for _, tr := range t.r.Treatments {
		_, response := tr.Metrics["latency_ms/p50"]
		_, service := tr.Metrics["service_ms/p50"]
		if service && !response {
			at := slices.IndexFunc(headline, func(h shown) bool { return h.metric == "rate" })
			return slices.Insert(slices.Clone(headline), at, serviceTimes...)
		}
	}
	return headline
}

// compared is what the differences show without --all.
var compared = analysis.HeadlineMetrics()

// mark points from a figure to the warnings below.
const mark = "!"

// text is the state of writing one report.
type text struct {
	out   *bytes.Buffer
	r     *analysis.Report
	o     Options
	label labels
	// markdown writes the same sections as GitHub-flavoured Markdown.
	markdown bool
}

func writeText(w io.Writer, r *analysis.Report, o Options) error {
	return (&text{out: &bytes.Buffer{}, r: r, o: o, label: newLabels(r)}).write(w)
}

func (t *text) write(w io.Writer) error {
	for _, section := range []func(){t.header, t.treatments, t.stages, t.failures, t.expectations, t.boundaries, t.differences, t.floor, t.roles, t.lines, t.cost, t.everything, t.meanings, t.warnings, t.legend} {
		section()
	}
	if _, err := t.out.WriteTo(w); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (t *text) line(format string, args ...any) { writeLine(t.out, fmt.Sprintf(format, args...)) }

func (t *text) wrapped(s string) {
	if t.markdown {
		writeLine(t.out, escapeMarkdown(s))
		writeLine(t.out, "")
		return
	}
	writeWrapped(t.out, s, "", "  ", t.prose())
}

// prose is the width of sentences: where there is no terminal they are folded
// all the same, while tables are as wide as they are.
func (t *text) prose() int {
	if t.o.Width > 0 {
		return t.o.Width
	}
	return 120
}

func (t *text) title(s string) {
	t.line("")
	if t.markdown {
		writeLine(t.out, "## "+escapeMarkdown(s))
		writeLine(t.out, "")
		return
	}
	t.wrapped(s)
}

func (t *text) table(columns []column, labels int, indent string) {
	if t.markdown {
		writeMarkdownTable(t.out, columns)
		return
	}
	writeTable(t.out, columns, labels, t.o.Width, indent)
}

// warning is one entry of the list of warnings.
func (t *text) warning(s, hint string) {
	if t.markdown {
		line := "- " + escapeMarkdown(s)
		if hint != "" {
			line += " _hint: " + escapeMarkdown(hint) + "_"
		}
		writeLine(t.out, line)
		return
	}
	writeWrapped(t.out, s, "  "+mark+" ", "    ", t.prose())
	if hint != "" {
		writeWrapped(t.out, "hint: "+hint, "    ", "          ", t.prose())
	}
}

func (t *text) header() {
	r := t.r
	title := r.Experiment
	if r.Description != "" {
		title += ": " + strings.Join(strings.Fields(r.Description), " ")
	}
	t.wrapped(title)
	t.wrapped(sentence(t.trials(), t.load()))
	if r.Setup.Way != "" {
		t.wrapped(r.Setup.Way)
	}
	if len(t.label.constant) > 0 {
		t.wrapped("In all treatments: " + strings.Join(t.label.constant, ", "))
	}
	t.wrapped(t.machine())
}

// trials says how many there are, and what became of them.
func (t *text) trials() string {
	c := t.r.Count
	s := fmt.Sprintf("%d trials, %d blocks of %d treatments %s", c.Planned, c.Blocks, len(t.r.Treatments), ordered(t.r.Order))
	if x := t.r.Stopping; x != nil && x.Reached {
		s += fmt.Sprintf(" (at most %d; ", x.Max) + x.Words() + ")"
	}
	if t.isImported() {
		s = fmt.Sprintf("%d runs of %d treatments, in the order in which they happened to be run", c.Planned, len(t.r.Treatments))
	}
	if c.Used == c.Planned {
		return s + ", all valid"
	}
	var lost []string
	for _, l := range []struct {
		n    int
		what string
	}{{c.Invalid, "invalid"}, {c.Failed, "failed"}, {c.Missing, "not recorded"}} {
		if l.n > 0 {
			lost = append(lost, fmt.Sprintf("%d %s", l.n, l.what))
		}
	}
	return s + fmt.Sprintf("; %d used, %s", c.Used, strings.Join(lost, ", "))
}

// ordered tells the order of the trials.
func ordered(order string) string {
	switch order {
	case experiment.OrderTurns:
		return "in random order, one mesh after another within each block"
	case experiment.OrderOnce:
		return "in random order within each mesh, one mesh after another over all blocks"
	}
	return "in random order"
}

func (t *text) load() string {
	s := t.r.Setup
	if s.Loop == "" {
		return ""
	}
	out := s.Loop + " loop"
	if s.Loop == "open" && s.Arrivals != "" {
		out += ", " + s.Arrivals + " arrivals"
	}
	if s.MeasureS != nil && s.WarmupS != nil {
		if t.isImported() {
			return out + fmt.Sprintf(", load for %s", time.Duration(*s.MeasureS*float64(time.Second)).Round(time.Second))
		}
		out += fmt.Sprintf(", %s measured after %s of warm-up", seconds(*s.MeasureS), seconds(*s.WarmupS))
	}
	return out
}

func seconds(v float64) string {
	return time.Duration(v * float64(time.Second)).Round(time.Millisecond).String()
}

func (t *text) machine() string {
	s := t.r.Setup
	var parts []string
	add := func(ok bool, format string, args ...any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(s.CPUModel != "", "%s", s.CPUModel)
	add(s.CPUs > 0, "%d CPUs", s.CPUs)
	add(s.OS != "", "%s", strings.TrimSpace(s.OS+" "+s.Kernel))
	add(s.Platform != "", "platform %s", s.Platform)
	add(s.Tare != "", "tare %s", s.Tare)
	for _, name := range slices.Sorted(maps.Keys(s.Versions)) {
		add(true, "%s %s", name, s.Versions[name])
	}
	return strings.Join(parts, ", ")
}

// sentence joins what is not empty.
func sentence(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

func (t *text) percent() string {
	return fixed(100*t.r.Confidence, decimalsOf(100*t.r.Confidence)) + " %"
}

func decimalsOf(v float64) int {
	if v == float64(int(v)) {
		return 0
	}
	return 1
}

// treatments is one line a treatment.
func (t *text) treatments() {
	if t.r.Method == analysis.AsPublished {
		t.asPublished()
		return
	}
	t.title(fmt.Sprintf("What each costs (mean of n trials ± half of its %s interval)", t.percent()))
	columns := t.label.columns(t.r.Treatments)
	n := column{heads: []string{"n"}}
	for _, tr := range t.r.Treatments {
		n.cells = append(n.cells, fmt.Sprint(tr.N))
	}
	columns = append(columns, n)
	fixedColumns := len(columns)
	for _, h := range t.shown() {
		c := column{heads: h.heads[:]}
		for _, tr := range t.r.Treatments {
			c.cells = append(c.cells, cell(tr, h.metric, h.scale))
		}
		columns = append(columns, c)
	}
	t.table(columns, fixedColumns, "  ")
}

// cell is one figure of a treatment, marked where a warning concerns it.
func cell(tr analysis.Treatment, name string, scale float64) string {
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

func warned(ws []analysis.Warning, code string) bool {
	return slices.ContainsFunc(ws, func(w analysis.Warning) bool { return w.Code == code })
}

// flagged reports whether a warning is worth a mark beside the figure: that an
// interval is absent is plain to see.
func flagged(ws []analysis.Warning) bool {
	return slices.ContainsFunc(ws, func(w analysis.Warning) bool {
		return !slices.Contains([]string{"few-trials", "no-spread", "ratio-undefined", "pairs-lost", "no-interval", "repeated-readings"}, w.Code)
	})
}

// everything lists every metric of every treatment.
func (t *text) everything() {
	if !t.o.All {
		return
	}
	t.title("Every metric")
	names, units := column{heads: []string{"metric"}, left: true}, column{heads: []string{"unit"}, left: true}
	ms := t.r.Metrics()
	for _, m := range ms {
		names.cells, units.cells = append(names.cells, m.Name), append(units.cells, m.Unit)
	}
	columns := []column{names, units}
	for _, tr := range t.r.Treatments {
		c := column{heads: []string{t.label.withControl(tr)}}
		for _, m := range ms {
			c.cells = append(c.cells, cell(tr, m.Name, 1))
		}
		columns = append(columns, c)
	}
	t.table(columns, 2, "  ")
}

// meanings says what the latencies of other generators than tare's own measure.
func (t *text) meanings() {
	if len(t.r.Latencies) == 0 {
		return
	}
	t.title("What the generators' latencies mean")
	for _, l := range t.r.Latencies {
		s := fmt.Sprintf("%s, %s time: %s", l.Generator, l.Of, l.Meaning)
		if t.markdown {
			t.wrapped(s)
			continue
		}
		writeWrapped(t.out, s, "  ", "    ", t.prose())
	}
}

// warnings lists those about the metrics shown, each with its cure.
func (t *text) warnings() {
	var shown []analysis.Warning
	hidden := 0
	for _, w := range t.r.Warnings {
		if t.concerns(w) {
			shown = append(shown, w)
		} else {
			hidden++
		}
	}
	if len(shown) > 0 {
		t.title("Warnings")
	}
	for _, w := range shown {
		count := ""
		if w.Trials > 0 {
			count = fmt.Sprintf(" (%d of %d trials)", w.Trials, t.r.Count.Planned)
		}
		t.warning(fmt.Sprintf("%s%s: %s", w.Code, count, w.Message), w.Hint)
	}
	if hidden > 0 {
		t.line("")
		t.wrapped(fmt.Sprintf("%d more %s about metrics that are not shown here: see --all.", hidden, plural(hidden, "warning")))
	}
}

// concerns says whether w is about a metric that is shown.
func (t *text) concerns(w analysis.Warning) bool {
	if t.o.All || len(w.Metrics) == 0 {
		return true
	}
	names := slices.Clone(compared)
	for _, h := range t.shown() {
		names = append(names, h.metric)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains(w.Metrics, name) || slices.Contains(w.Metrics, metric.Base(name))
	})
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// legend says how to read it.
func (t *text) legend() {
	t.line("")
	if n := t.r.Families[analysis.Headline]; n > 0 {
		t.wrapped(fmt.Sprintf("Verdicts are at %s after Holm's adjustment for the %d headline comparisons of this run. Each interval stands for itself: one that only just leaves out zero may show nothing. Response times are judged by their ratio.",
			t.percent(), n))
	}
	response := "Response time: from the intended start of each request."
	if len(t.r.Latencies) > 0 {
		response = "Response time: from the intended start of each request, as far as its generator knows it."
	}
	t.wrapped("total: application, data and control plane, platform; without the load generator. " + response +
		legendOf(t.out.String()))
}

// legendOf explains the signs that were used.
func legendOf(s string) string {
	var out string
	for _, sign := range []struct{ sign, means string }{
		{"±" + unknown, " ±?: too few trials for an interval."},
		{" " + unknown, " ?: not known; the warnings say why."},
		{mark, " !: a warning concerns the figure."},
		{" " + none, " –: no ratio, the baseline is zero."},
	} {
		if strings.Contains(s, sign.sign) {
			out += sign.means
		}
	}
	return out
}
