package report

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// doubt is a reason to distrust the first result, by the warning about it.
type doubt struct {
	code  string
	about func(view) bool // the result that it concerns, nil for any
	form  string          // "" is the warning's message
}

// doubts are the most important first.
var doubts = []doubt{
	{"aa-differs", nil, ""},
	{"not-interleaved", nil, "The treatments were measured one after another: the differences include every other change over that time."},
	{"treatments-same", nil, ""},
	{"throttled", nil, "CPU limits stopped {who} in {trials}: response times contain the pauses."},
	{"generator-late", aboutCapacity, generatorLimit},
	{"generator-saturated", aboutCapacity, generatorLimit},
	{"verified-with-caution", aboutCPU, ""},
	{"unequal-meshes", aboutCPU, "Unequal work: {lacks}."},
	{"outlier-block", nil, ""},
	{"effect-drifts", nil, ""},
	{"pairs-dependent", nil, ""},
	{"foreign-workloads", nil, ""},
}

// Forms of doubts about the generator: of the highest rates, and of response times.
const (
	generatorLimit = "The load generator sent late in {trials}: the highest rates may be the generator's."
	generatorLate  = "The load generator sent late in {trials}: response times may contain its delay."
)

// inBrackets are the details of a message.
var inBrackets = regexp.MustCompile(` \([^)]*\)`)

// doubtWords are a warning in the form of its doubt. Of the parts of its message, {lacks} has those about some of the treatments.
func doubtWords(v view, w figures.Warning, form string, of []string) string {
	message := named(v, inBrackets.ReplaceAllString(w.Message, ""))
	_, parts, _ := strings.Cut(w.Message, ": ")
	lacks := strings.Join(lists.Where(strings.Split(parts, "; "), func(part string) bool { return common(namedIn(v, part), of) }), "; ")
	return filled(cmp.Or(form, "{message}."), sentenceWords{"message": sentenceOf(v, message), "lacks": lacks, "who": inBrackets.ReplaceAllString(lacks, ""), "trials": fmt.Sprintf("%d of %s", w.Trials, printable.Counted(v.r.Count.Planned, "trial"))})
}

// fewRepetitions is the number of repetitions up to which an answer has a warning.
const fewRepetitions = 3

// doubtsOf are the main reason to distrust the first result, and a line of those that every report has where they are true:
// a late generator, few repetitions. A doubt about other treatments than those of the result is left out.
func doubtsOf(v view, first []Claim) []Claim {
	all, of := unmeasured(v), subjectsOf(v, first)
	w, d := mainWarning(v, of)
	if d != nil {
		all = append(all, Claim{Form: doubtClaim, Reason: w.Code, Sentence: doubtWords(v, w, d.form, of)})
	}
	always := few(v, of)
	if d == nil || w.Code != "generator-late" {
		always = append(late(v, of), always...)
	}
	return append(all, together(doubtClaim, always...)...)
}

// subjectsOf are the treatments that claims are about, and their baselines. They are nil for claims about the whole run.
func subjectsOf(v view, claims []Claim) (ids []string) {
	for _, c := range claims {
		for _, id := range []string{c.Subject, c.Baseline} {
			if q, ok := lists.First(v.r.Questions, func(q compare.Question) bool { return q.ID == id }); ok {
				ids = lists.Add(ids, q.Treatments...)
			}
			ids = lists.Add(ids, called(v, id)...)
		}
		ids = lists.Add(ids, subjectsOf(v, c.Of)...)
	}
	for _, id := range ids {
		if base := v.treatment(id).Baseline; base != "" {
			ids = lists.Add(ids, base)
		}
	}
	return ids
}

// called are the treatments that a word names: by their identifier, or by their mesh.
func called(v view, word string) (ids []string) {
	for _, tr := range v.r.Treatments {
		if mesh, ok := tr.Factors[experiment.MeshFactor]; word != "" && (tr.ID == word || ok && Level(mesh) == word) {
			ids = append(ids, tr.ID)
		}
	}
	return ids
}

// namedIn are the treatments that a message names outside its brackets.
func namedIn(v view, message string) (ids []string) {
	for _, word := range identifiers.FindAllString(inBrackets.ReplaceAllString(message, ""), -1) {
		ids = lists.Add(ids, called(v, strings.TrimRight(word, "."))...)
	}
	return ids
}

// concernsSome reports whether a warning is about some of the treatments: treatments of trials with it, or else treatments that its message
// names. Without either it is about all. That two treatments are the same is about a result with both.
func concernsSome(v view, w figures.Warning, of []string) bool {
	var ids []string
	for _, t := range v.r.Trials {
		left := w.Code == "invalid-trials" && !t.Valid && t.Error == ""
		if left || w.Trials > 0 && slices.ContainsFunc(t.Warnings, func(x figures.Warning) bool { return x.Code == w.Code }) {
			ids = lists.Add(ids, t.Treatment)
		}
	}
	if ids == nil {
		ids = namedIn(v, w.Message)
	}
	if w.Code == "treatments-same" && of != nil {
		return !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(of, id) })
	}
	return common(ids, of)
}

// common reports whether two lists of treatments have one in common. An empty list has all.
func common(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(id string) bool { return slices.Contains(b, id) })
}

// unmeasured names the treatments without a valid trial among others that have some: their absence is no result.
func unmeasured(v view) []Claim {
	c := Claim{Form: unmeasuredClaim}
	for _, tr := range v.r.Treatments {
		ran := slices.ContainsFunc(v.r.Trials, func(t figures.Trial) bool { return t.Treatment == tr.ID })
		if tr.N == 0 && ran && !tr.Control {
			c.Of = append(c.Of, Claim{Subject: tr.ID, Sentence: v.label.describe(tr.Factors)})
		}
	}
	if c.Of == nil || len(c.Of) == len(v.r.Treatments) {
		return nil
	}
	return []Claim{c.fill(sentenceWords{})}
}

// late is the share of the trials whose generator sent late, if any of some treatments did. It is part of their response times.
func late(v view, of []string) []Claim {
	for _, w := range v.r.Warnings {
		if w.Code == "generator-late" && w.Trials > 0 && concernsSome(v, w, of) {
			return []Claim{{Form: doubtClaim, Reason: w.Code, Amount: &stats.Interval{Estimate: float64(w.Trials)}, Unit: "trials", Sentence: doubtWords(v, w, generatorLate, of)}}
		}
	}
	return nil
}

// few is a doubt of few repetitions, or of few valid trials of some treatments.
func few(v view, of []string) []Claim {
	n, most := v.r.Count.Blocks, 0
	for _, tr := range v.r.Treatments {
		if tr.N == 0 || !common([]string{tr.ID}, of) {
			continue
		}
		if most = max(most, tr.N); tr.N <= fewRepetitions {
			n = min(n, tr.N)
		}
	}
	if v.r.Method != compare.Paired || v.r.Count.Blocks <= 1 || n > fewRepetitions {
		return nil
	}
	some := map[bool]string{true: " of some treatments"}[n < min(most, v.r.Count.Blocks)]
	return []Claim{Claim{Form: fewClaim, Amount: &stats.Interval{Estimate: float64(n)}, Unit: "repetitions"}.fill(sentenceWords{"number": numberWord(n) + " " + printable.Plural(n, "repetition"), "some": some})}
}

// mainWarning is the most important warning about some treatments, with its doubt. Without a doubt it is the first one that has no card
// of its own.
func mainWarning(v view, of []string) (figures.Warning, *doubt) {
	for i, d := range doubts {
		for _, w := range v.r.Warnings {
			if w.Code == d.code && v.concerns(w) && concernsSome(v, w, of) && (d.about == nil || d.about(v)) {
				return w, &doubts[i]
			}
		}
	}
	var first figures.Warning
	for _, w := range v.r.Warnings {
		if first.Code == "" || first.Code == "no-floor" {
			first = w
		}
	}
	return first, nil
}

// WarningTitle names the most important warning in a few words: "the generator sent late".
func WarningTitle(r *answer.Report) string {
	w, _ := mainWarning(newView(r), nil)
	return capital(figures.Cause(cmp.Or(w.Code, "none")))
}

// sentenceOf begins a sentence, but a name stays as it is written.
func sentenceOf(v view, s string) string {
	first, _, _ := strings.Cut(s, " ")
	for _, tr := range v.r.Treatments {
		if strings.TrimRight(first, ":,") == tr.ID || slices.Contains(strings.Fields(v.label.describe(tr.Factors)), strings.TrimRight(first, ":,")) {
			return s
		}
	}
	return capital(s)
}

// aboutCapacity reports whether a run is about the highest rate.
func aboutCapacity(v view) bool { return len(capacityClaims(v)) > 0 }

// trustClaims are the share of the trials that counts, and the smallest effect that they could show.
func trustClaims(v view, doubted bool) []Claim {
	all := []Claim{Claim{Form: trustClaim, Amount: &stats.Interval{Estimate: float64(v.r.Count.Used)}, Unit: fmt.Sprintf("of %s", printable.Counted(v.r.Count.Planned, "trial"))}.fill(sentenceWords{"words": trialsUsed(v.r, doubted) + unusedWords(v.r)})}
	for _, c := range []struct {
		form          ClaimForm
		metric, words string
	}{{withheldClaim, answerCost, capital(withheld(v.r, answerCost, "CPU per request"))}, {withheldClaim, answerMedian, withheldCure(v.r)}, {smallestClaim, answerCost, SmallestWords(v.r)}} {
		if c.words != "" {
			all = append(all, Claim{Form: c.form, Metric: c.metric}.fill(sentenceWords{"words": c.words}))
		}
	}
	return together(trustClaim, all...)
}

// SmallestWords are the differences in CPU that the trials could not show: "Differences in CPU per request of less than 101 µs
// may be missed". They are "" if unknown, if they differ between treatments, or if the run is about something else.
func SmallestWords(r *answer.Report) string {
	v, q, found := newView(r), quantityOf(answerCost), map[string]bool{}
	for _, c := range r.Comparisons {
		if c.Metric == answerCost && !c.Control && c.Smallest != nil && c.Smallest.Estimate > 0 {
			found[rough(c.Smallest.Estimate*q.scale)+q.unitText()] = true
		}
	}
	for smallest := range found {
		if len(found) == 1 && aboutCPU(v) {
			return fmt.Sprintf("Differences in CPU per request of less than %s may be missed", smallest)
		}
	}
	return ""
}

// aboutCPU reports whether the question of a run is the CPU of a request.
func aboutCPU(v view) bool {
	if len(v.r.Decisions) > 0 {
		return slices.ContainsFunc(v.r.Decisions, func(d compare.Decision) bool { return metric.Base(d.Metric) == metric.CPUPerRequest })
	}
	return len(failureClaims(v))+len(changeClaims(v))+len(startClaims(v))+len(boundaryClaims(v)) == 0
}

// WithheldTimes are the response times that no figure has: "response times of 60 trials are withheld: the generator
// sent late". It is "" if there are none.
func WithheldTimes(r *answer.Report) string { return withheld(r, answerMedian, "response times") }

// withheld is [WithheldTimes] of a metric with its name.
func withheld(r *answer.Report, metricName, name string) string {
	for _, w := range r.Warnings {
		if !w.Withholds || len(w.Metrics) == 0 || !concernsMetric(w, metricName) {
			continue
		}
		without := lists.Count(r.Trials, func(t figures.Trial) bool { _, known := t.Metrics[metricName]; return t.Valid && !known })
		of := fmt.Sprintf("%d of %s", without, printable.Counted(r.Count.Planned, "trial")) // as the trials that count
		switch without {
		case 0:
			continue
		case r.Count.Planned:
			of = "all trials"
		}
		return fmt.Sprintf("%s of %s %s withheld: %s", name, of, map[bool]string{true: "are", false: "is"}[metricName == answerMedian], figures.Cause(w.Code))
	}
	return ""
}

// withheldCure is [WithheldTimes] as a sentence, with what would bring them.
func withheldCure(r *answer.Report) string {
	words := capital(WithheldTimes(r))
	for _, w := range Warnings(r) {
		if w.Withholds && w.Hint != "" && words != "" && strings.HasSuffix(words, figures.Cause(w.Code)) {
			return words + ". For them: " + w.Hint
		}
	}
	return words
}

// TrialsUsed is the sentence about the trials that count. It calls all of them valid only without a doubt about them.
func TrialsUsed(r *answer.Report) string {
	v := newView(r)
	return trialsUsed(r, len(doubtsOf(v, firstResult(results(v))))+len(otherAnswers(r)) > 0)
}

func trialsUsed(r *answer.Report, doubted bool) string {
	n := r.Count
	doubted = doubted || WithheldTimes(r)+withheld(r, answerCost, "") != ""
	switch {
	case n.Used == n.Planned && n.Used == 1 && !doubted:
		return "The trial is valid"
	case n.Used == n.Planned && !doubted:
		return fmt.Sprintf("All %d trials are valid", n.Planned)
	}
	return fmt.Sprintf("%d of %s used", n.Used, printable.Counted(n.Planned, "trial"))
}

// unusedWords count the trials that are not used by reason, the two most frequent ones: ", 1 failed, 1 invalid: fewer answers than the rate".
func unusedWords(r *answer.Report) (words string) {
	trials := map[string]int{}
	for _, t := range r.Trials {
		if !t.Valid || t.Error != "" {
			trials[lossOf(r, t.Treatment, t.Block, "")]++
		}
	}
	reasons := printable.MostFirst(trials)
	for _, reason := range reasons[:min(2, len(reasons))] {
		words += fmt.Sprintf(", %d %s", trials[reason], reason)
	}
	return words
}

// partsSection divides the CPU per request of interleaved trials.
func partsSection(t text) {
	g := gridOf([]int{0}, "", "for requests,\nin its slices", "deferred, in\nthose of others", "idle, in\nits slices", "\nsum", "idle rate,\nmillicores")
	for _, tr := range t.view.r.Treatments {
		cost, ok1 := tr.Metrics[metric.Of(metric.CPUPerRequest, "total")]
		deferred, ok2 := tr.Metrics[metric.Of(metric.DeferredPerRequest, "total")]
		idle, ok3 := tr.Metrics[metric.Of(metric.IdlePerRequest, "total")]
		cores, ok4 := tr.Metrics[metric.Of(metric.IdleCPU, "total")]
		if tr.Control || !ok1 || !ok2 || !ok3 || !ok4 {
			continue
		}
		cells := []string{t.view.label.describe(tr.Factors)}
		for _, v := range []float64{cost.Estimate - deferred.Estimate - idle.Estimate, deferred.Estimate, idle.Estimate, cost.Estimate, 1000 * cores.Estimate} {
			cells = append(cells, fmt.Sprintf("%.1f", math.Round(10*v)/10+0)) // +0: no -0.0
		}
		g.row(cells...)
	}
	if g.empty() {
		return
	}
	t.page.heading("Parts of CPU/request, total (µs; they add up)")
	t.page.tableAt(g, 1, "")
}

// byPair adds rows about treatments to a grid, each group below the names of both sides. A treatment without rows is left out.
func byPair(v view, g grid, rows func(compare.Treatment) [][]string) {
	for _, tr := range v.r.Treatments {
		for i, cells := range rows(tr) {
			if i == 0 {
				g.row(v.pairWords(tr))
			}
			g.row(cells...)
		}
	}
}

// floorSection shows the differences of identical treatments.
func floorSection(t text) {
	if len(t.view.r.Floor) == 0 {
		return
	}
	t.page.heading(fmt.Sprintf("Noise (baselines against themselves, %s: any difference here is noise)", printable.Counted(t.view.r.Floor[0].N, "pair")))
	g := gridOf([]int{0}, "", "difference", "interval")
	byPair(t.view, g, func(tr compare.Treatment) (rows [][]string) {
		for _, c := range t.view.comparisons(tr.ID) {
			if !tr.Control || c.Difference == nil {
				continue
			}
			c, q := c.Judged(t.view.r.Confidence), quantityOf(c.Metric)
			name := "  " + q.name
			if isShown(c.Verdict) {
				name += " " + mark
			}
			rows = append(rows, []string{name, difference(*c.Difference, q.scale) + q.differenceUnit(), bounds(*c.Difference, q.scale, signed)})
		}
		return rows
	})
	if g.empty() {
		t.page.line("  no difference at all")
		return
	}
	t.page.tableAt(g, 1, "")
}

// smallestSection has the smallest difference that each comparison would show, the A/A
// pairs included.
func smallestSection(t text) {
	g := gridOf([]int{0}, "", "smallest", "share", "range")
	shown := t.view.shownGroups()
	byPair(t.view, g, func(tr compare.Treatment) (rows [][]string) {
		for _, c := range t.view.comparisons(tr.ID) {
			if c.Smallest != nil && (tr.Control || slices.Contains(shown, tr.ID)) {
				value, share, between := smallestWords(c, tr)
				rows = append(rows, []string{"  " + quantityOf(c.Metric).name, value, share, between})
			}
		}
		return rows
	})
	if g.empty() {
		return
	}
	t.page.heading(fmt.Sprintf("Smallest detectable difference (80 %% power; range: %s interval)", t.view.percent()))
	t.page.tableAt(g, 1, "")
}

// smallestWords are the smallest difference, its share of the treatment's mean and its range.
func smallestWords(c compare.Comparison, tr compare.Treatment) (value, share, between string) {
	s, q := c.Smallest, quantityOf(c.Metric)
	scale, unit := q.scale, q.differenceUnit()
	if s.Relative {
		scale, unit = 100, " %"
	}
	value = rough(s.Estimate*scale) + unit
	if s.Known() {
		between = rough(*s.Low*scale) + " to " + rough(*s.High*scale) + unit
	}
	if e, ok := tr.Metrics[c.Metric]; ok && e.Estimate > 0 && !s.Relative {
		share = rough(100*s.Estimate/e.Estimate) + " %"
	}
	return value, share, between
}

// weightSection gives costs in standard weights.
func weightSection(t text) {
	for _, w := range t.view.r.Weights {
		g := gridOf([]int{0, 2}, "", "standard weights", "interval")
		byPair(t.view, g, func(tr compare.Treatment) (rows [][]string) {
			for _, c := range w.Costs {
				if c.Treatment != tr.ID {
					continue
				}
				half, known := c.Weights.HalfWidth()
				rows = append(rows, []string{"  " + quantityOf(c.Metric).name, fixed(c.Weights.Estimate, decimals(c.Weights.Estimate, half, known)), ratioBounds(c.Weights)})
			}
			return rows
		})
		if g.empty() {
			continue
		}
		half, known := w.Weight.HalfWidth()
		t.page.heading(fmt.Sprintf("Costs in standard weights (the reference proxy: %s µs of CPU/request here %s, %s)",
			fixed(w.Weight.Estimate, decimals(w.Weight.Estimate, half, known)), ratioBounds(w.Weight), printable.Counted(w.N, "block")))
		t.page.tableAt(g, 1, "")
	}
}

func fixed2(v float64, _ int) string { return fixed(v, 2) }

// latencyMeaningsSection defines the latencies of other generators than tare's own.
func latencyMeaningsSection(t text) {
	if len(t.view.r.Latencies) == 0 {
		return
	}
	t.page.heading("Meaning of the generators' latencies")
	for _, l := range t.view.r.Latencies {
		t.page.item(fmt.Sprintf("%s, %s time: %s", l.Generator, l.Of, l.Meaning))
	}
}

// warningsSection lists the warnings about the metrics shown, each with its hint.
func warningsSection(t text) {
	var shown []figures.Warning
	hidden := 0
	for _, w := range Warnings(t.view.r) {
		if t.view.concerns(w) {
			shown = append(shown, w)
		} else {
			hidden++
		}
	}
	if len(shown) > 0 {
		t.page.heading("Warnings")
	}
	for _, w := range shown {
		count := ""
		if w.Trials > 0 {
			count = fmt.Sprintf(" (%d of %s)", w.Trials, printable.Counted(t.view.r.Count.Planned, "trial"))
		}
		words := fmt.Sprintf("%s%s: %s", w.Code, count, w.Message)
		if t.view.short {
			words, _, _ = strings.Cut(w.Message, " (trial ")
			if count != "" {
				words = strings.Trim(count, " ()") + ": " + words
			}
		}
		t.page.warning(words, w.Hint)
	}
	if hidden > 0 {
		t.page.line("")
		t.page.prose(fmt.Sprintf("%s about metrics not shown here: see --all.", printable.Counted(hidden, "more warning")))
	}
}

// legendSection explains the verdicts, the sums and the signs of the text so far.
func legendSection(t text) {
	t.page.line("")
	if n := t.view.r.Families[compare.Headline]; n > 0 {
		of := fmt.Sprintf("the %d headline comparisons of this run", n)
		if len(t.view.r.Questions) > 1 {
			of = "the headline comparisons of each question by itself"
		}
		if slices.ContainsFunc(t.view.r.Questions, func(q compare.Question) bool { return len(q.Pooled) > 0 }) {
			of += ", the mean over the levels first"
		}
		t.page.prose(fmt.Sprintf("Verdicts: %s confidence for %s together (Holm's method). Each interval is for one comparison alone. Where it excludes zero and no difference is shown, it is widened to hold for all of them. Response times are judged by their ratio.",
			t.view.percent(), of))
	}
	response := "Response time: from the intended start of each request."
	if len(t.view.r.Latencies) > 0 {
		response = "Response time: from the intended start of each request, as far as its generator records it."
	}
	total := "total: application, data and control plane, platform; without the load generator. "
	if t.view.known(nodeColumn) || t.view.missed(nodeColumn) {
		total = "total: pods of application, data and control plane, platform; without the load generator. node: kubelet, container runtime and kernel of the nodes, in no total but cluster. "
	}
	t.page.prose(total + response + signsOf(t.page.text()))
}

// signsOf explains the signs that occur in s.
func signsOf(s string) string {
	var out string
	for _, sign := range []struct{ sign, means string }{
		{"±" + unknown, " ±?: too few trials for an interval."},
		{" " + unknown, " ?: unknown, see the warnings."},
		{mark, " !: a warning concerns the figure."},
		{upward, grownWords},
		{" " + none, " –: no ratio, the baseline is zero."},
	} {
		if strings.Contains(s, sign.sign) {
			out += sign.means
		}
	}
	return out
}
