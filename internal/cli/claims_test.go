package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/live"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/clitest"
	"github.com/tare-mesh/tare/test/must"
)

// Every claim of the recorded results, after each of their first blocks, is in every form of the report, and contradicts no row of its
// table.
func TestClaimsAgreeWithTheirTables(t *testing.T) {
	t.Parallel()
	reports, forms, prices := 0, map[string]bool{}, must.Get(answer.ReadPrices("../../examples/prices.yaml"))(t)
	for name, d := range recorded(t) {
		planned := d.Plan().Trials
		blocks := planned[len(planned)-1].Block
		for n := min(blocks, 4); n >= 0; n-- { // 0: all
			r, err := answer.Analyze(d, compare.Options{Blocks: n})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			reports++
			at := fmt.Sprintf("%s, %d blocks", name, n)
			agrees(t, at, r)
			for _, c := range report.Claims(r) {
				forms[c.Form.Name] = true
				valued(t, at, r, c.Form.Name, c)
			}
			if n == 0 {
				rendered(t, at, answer.Analysis{Dir: d, Report: r})
			}
			must.OK(t, r.AddCost(d, *prices, nil))
			agrees(t, at+", priced", r)
			for _, c := range report.Claims(r) {
				forms[c.Form.Name] = true
				valued(t, at+", priced", r, c.Form.Name, c)
			}
		}
	}
	t.Logf("%d reports, %d forms: %v", reports, len(forms), slices.Sorted(maps.Keys(forms)))
	if reports < 40 || len(forms) < 20 {
		t.Errorf("only %d reports, and %d forms", reports, len(forms))
	}
	for _, kind := range []string{"money", "start", "slope", "highest-rate", "change", "gate", "trend", "metered", "ranking", "executions-undecided", "executions-no-verdict", "beside", "time-no-verdict", "no-verdict"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(forms)), func(form string) bool { return strings.HasPrefix(form, kind) }) {
			t.Errorf("no recorded result has a claim about %s", kind)
		}
	}
}

// valued compares a claim and its parts with the rows that they are about.
func valued(t *testing.T, at string, r *answer.Report, form string, c report.Claim) {
	t.Helper()
	if c.Sentence == "" {
		t.Errorf("%s: a claim of form %s without a sentence", at, form)
	}
	form = cmp.Or(c.Form.Name, form)
	for _, of := range c.Of {
		valued(t, at, r, form, of)
	}
	if c.Amount != nil && !inTable(r, form, c) {
		t.Errorf("%s: form %s: no row has %+v of %q", at, form, c, c.Sentence)
	}
	if c.Amount != nil && c.Relation != compare.Insufficient && form != "two-levels" && !shown(r, form, c) {
		t.Errorf("%s: form %s: %g is not in %q", at, form, c.Amount.Estimate, c.Sentence)
	}
}

// shown reports whether a sentence has its amount to two digits, or the larger end of a small step. Nothing has words, and growth has
// another unit of time.
func shown(r *answer.Report, form string, c report.Claim) bool {
	want := []float64{c.Amount.Estimate}
	if form == "steps-small" || form == "steps-undecided" {
		want[0] = max(-*c.Amount.Low, *c.Amount.High)
	}
	for _, m := range report.WordsOf(r).Metrics {
		if m.Name == c.Metric && c.Unit == "" && !c.OfRatio {
			want[0] *= m.Scale
		}
	}
	if c.OfRatio {
		want = append(want, 100*(c.Amount.Estimate-1))
	}
	if strings.Contains(c.Sentence, "millicores") {
		want = append(want, 1000*c.Amount.Estimate)
	}
	half, _ := c.Amount.HalfWidth() // digits follow the interval
	if want[0] == 0 || strings.HasSuffix(c.Unit, " an hour") || strings.HasSuffix(c.Unit, " each") || strings.HasPrefix(c.Unit, "of ") || c.Unit == "repetitions" {
		return true
	}
	return slices.ContainsFunc(regexp.MustCompile(`[0-9]+(?:\.[0-9]+)?`).FindAllString(c.Sentence, -1), func(text string) bool {
		return slices.ContainsFunc(want, func(v float64) bool {
			return math.Abs(number(text)-math.Abs(v)) <= max(0.051, 0.051*math.Abs(v), 0.051*math.Abs(v*half/c.Amount.Estimate))
		})
	})
}

// inTable reports whether a row has the amount of a claim and its relation.
func inTable(r *answer.Report, form string, c report.Claim) bool {
	same := func(treatment, metric, relation string, amount float64) bool {
		return treatment == c.Subject && metric == c.Metric && (relation == "" || relation == string(c.Relation)) && amount == c.Amount.Estimate
	}
	kind, _, _ := strings.Cut(form, "-")
	switch kind {
	case "gate", "gates":
		return slices.ContainsFunc(r.Decisions, func(d compare.Decision) bool {
			return d.Change != nil && same(d.Treatment, d.Metric, string(d.Outcome), d.Change.Estimate) && strings.Contains(c.Sentence, string(d.Outcome))
		})
	case "trend":
		return slices.ContainsFunc(r.Trends, func(x answer.Trend) bool {
			return same(x.Treatment, x.Metric, string(x.Verdict), x.PerHour.Estimate)
		})
	case "targets":
		return slices.ContainsFunc(r.Expectations, func(e answer.Expectation) bool {
			return same(e.Treatment, e.Expect, "", float64(e.Held)) && e.Held < e.N && (c.Relation == "undecided") == (e.Held+e.Undecided == e.N)
		})
	case "slope":
		if form == "slope-curved" { // figures of treatments
			break
		}
		return slices.ContainsFunc(r.Slopes, func(s compare.Slope) bool {
			return same(s.Mesh, s.Metric, "", s.PerItem.Estimate) && s.PerItem.Excludes(0)
		})
	case "steps":
		return slices.ContainsFunc(r.Ladders, func(l compare.Ladder) bool {
			return slices.ContainsFunc(l.Metrics, func(m compare.LadderMetric) bool {
				return slices.ContainsFunc(m.Increments, func(x compare.Increment) bool {
					return x.Judged() != nil && same(x.Treatment, m.Metric, string(x.Verdict), x.Judged().Estimate)
				})
			})
		})
	case "executions":
		return slices.ContainsFunc(r.Executed, func(d compare.Decision) bool { return same(d.Treatment, d.Metric, "", d.Change.Estimate) })
	case "trust":
		return int(c.Amount.Estimate) == r.Count.Used && strings.Contains(c.Sentence, fmt.Sprint(r.Count.Used))
	}
	if row, ok := r.Find(c.Subject, c.Metric); ok && c.Baseline == row.Baseline {
		amount := row.Difference
		if c.OfRatio {
			amount = row.Ratio
		}
		return amount != nil && same(row.Treatment, row.Metric, "", amount.Estimate)
	}
	if form == "change-median" || form == "change-few" {
		return slices.ContainsFunc(r.ChangeTimes, func(x answer.ChangeTimes) bool { return x.Treatment == c.Subject && x.FromMS == c.Amount.Estimate })
	}
	if c.Unit != "" || c.Baseline != "" { // money, counts, means over levels
		return true
	}
	for _, tr := range r.Treatments {
		if e, known := tr.Metrics[c.Metric]; known && tr.ID == c.Subject {
			return e.Estimate == c.Amount.Estimate
		}
	}
	return slices.ContainsFunc(r.Questions, func(q compare.Question) bool { return q.ID == c.Subject })
}

// recorded are the results directories of the repository, and studies with known values.
func recorded(t *testing.T) map[string]*result.Dir {
	all := map[string]*result.Dir{}
	for _, pattern := range []string{"../../docs/pictures/*.tar.gz", "testdata/*/*.tar.gz"} {
		archives := must.Get(filepath.Glob(pattern))(t)
		for _, archive := range archives {
			dir := filepath.Join(t.TempDir(), "results")
			clitest.Unpack(t, archive, dir)
			all[archive] = must.Get(result.Open(dir))(t)
		}
	}
	for name, s := range map[string]answertest.Study{"quickstart": answertest.Quickstart(), "two rates": answertest.TwoRates(), "ab": answertest.AB(0.03, 12), "outlier": answertest.ABWithOutlier()} {
		all[name] = s.Write(t, filepath.Join(t.TempDir(), "results"))
	}
	dir := t.TempDir()
	var times, runs []string
	for i, jitter := range []float64{0.98, 1, 1.03} {
		times = append(times, must.File(t, dir, fmt.Sprintf("h%d.json", i), hyperfineRun(0.1*jitter, 0.2/jitter)))
		runs = append(runs, must.File(t, dir, fmt.Sprintf("none-%d.json", i), fortioRun(2*i, 0.002*jitter)), must.File(t, dir, fmt.Sprintf("istio-%d.json", i), fortioRun(2*i+1, 0.0033/jitter)))
	}
	bench := func(name string, encode, decode []int) string {
		text := ""
		for i := range encode {
			text += fmt.Sprintf("goos: linux\npkg: a.test/x\nBenchmarkEncode-2 \t 1000 \t %d ns/op\nBenchmarkDecode-2 \t 1000 \t %d ns/op\nPASS\n", encode[i], decode[i])
		}
		return must.File(t, dir, name, text)
	}
	for name, of := range map[string][]string{"hyperfine": times[:1], "hyperfine ": times, "fortio": runs[:2], "fortio ": runs,
		"gobench": {bench("old.txt", []int{2500, 2610, 2480, 2550}, []int{4000, 4100, 3900, 4000}), bench("new.txt", []int{2900, 3010, 2880, 2950}, []int{4030, 3950, 3980, 4010})}} {
		all[name] = must.Get(result.Open(imported(t, strings.TrimSpace(name), of...)))(t)
	}
	return all
}

var (
	plusMinus      = regexp.MustCompile(`([+-]?[0-9.]+)(?: [^ ]+)? ±<?([0-9.]+)`)
	rangeOf        = regexp.MustCompile(`([+-]?[0-9.]+) to ([+-]?[0-9.]+)`)
	undecidedWords = regexp.MustCompile(`no difference|No difference|not distinguishable`)
	ofAll          = regexp.MustCompile(`([0-9]+) of ([0-9]+) [a-z]+`)
	trialsUsed     = regexp.MustCompile(`([0-9]+) of ([0-9]+) trials? used`)
	oneOfMany      = regexp.MustCompile(`\b1 (trials|runs|blocks|gates|requests|connections|targets|repetitions|minutes)\b`)
	// tableOfDifferences is its head. Noise has no verdict.
	tableOfDifferences = regexp.MustCompile(`^ +difference +interval +ratio`)
	allValid           = regexp.MustCompile(`All [0-9]+ trials are valid|The trial is valid`)
)

// agrees compares each claim with the comparison that it is about, and its words with both.
func agrees(t *testing.T, at string, r *answer.Report) {
	t.Helper()
	claims := report.Claims(r)
	doubted := slices.ContainsFunc(claims, func(c report.Claim) bool {
		return slices.Contains([]string{"doubt", "other-work", "not-measured", "few-repetitions"}, c.Form.Name)
	})
	for _, c := range claims {
		wrong := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s: %s\n  %s (%s of %s)", at, fmt.Sprintf(format, args...), c.Sentence, c.Metric, c.Subject)
		}
		for _, m := range ofAll.FindAllStringSubmatch(c.Sentence, -1) {
			if number(m[1]) > number(m[2]) {
				wrong("more than all: %s", m[0])
			}
		}
		if allValid.MatchString(c.Sentence) && (doubted || r.Count.Used != r.Count.Planned) {
			wrong("all are valid, beside a doubt, with %+v", r.Count)
		}
		if c.Form.Name == "trend-memory" {
			aboutTrend(wrong, c, r)
		} else if strings.HasPrefix(c.Form.Name, "executions") {
			aboutExecutions(wrong, c, r)
		} else if row, ok := r.Find(c.Subject, c.Metric); ok && !strings.HasPrefix(c.Form.Name, "gate") {
			aboutRow(wrong, c, row)
		}
		aboutFailures(wrong, c, r)
		if m := trialsUsed.FindStringSubmatch(c.Sentence); m != nil && (number(m[1]) != float64(r.Count.Used) || number(m[2]) != float64(r.Count.Planned)) {
			wrong("%s, with %+v", m[0], r.Count)
		}
		if oneOfMany.MatchString(c.Sentence) {
			wrong("one with a plural")
		}
		if n := len(c.Subject); n > 0 && len(c.Sentence) >= n && strings.EqualFold(c.Sentence[:n], c.Subject) && c.Sentence[:n] != c.Subject {
			wrong("a name is not as it is written")
		}
		none, sign := 0.0, 1.0
		if c.OfRatio {
			none = 1
		}
		switch c.Relation {
		case compare.Lower:
			sign = -1
			fallthrough
		case compare.Higher:
			if c.Amount != nil && (c.Amount.Estimate-none)*sign <= 0 {
				wrong("%s by %g", c.Relation, c.Amount.Estimate)
			}
			if regexp.MustCompile(`adds? |more|higher`).MatchString(c.Sentence) && sign < 0 && !strings.Contains(c.Sentence, "; ") || regexp.MustCompile(`saves? |less$|lower`).MatchString(c.Sentence) && sign > 0 {
				wrong("words of the other direction")
			}
		case compare.NotShown:
			if c.Amount != nil && c.Amount.Excludes(none) {
				wrong("undecided, but the interval %g to %g excludes %g", *c.Amount.Low, *c.Amount.High, none)
			}
			if !undecidedWords.MatchString(c.Sentence) {
				wrong("undecided, but the sentence has no words for it")
			}
		}
		for _, part := range strings.Split(c.Sentence, "; ") {
			if m := plusMinus.FindStringSubmatch(part); m != nil && undecidedWords.MatchString(part) && abs(number(m[1])) > number(m[2]) {
				wrong("undecided beside %s", m[0])
			}
		}
	}
	ranked(t, at, claims, r)
	for _, d := range r.Decisions {
		if err := beyondLimit(d); err != "" {
			t.Errorf("%s: the gate %s on %s is %s: %s", at, d.Gate, d.Treatment, d.Outcome, err)
		}
	}
	for _, d := range r.Executed {
		if ratio := 100 * (*d.B / *d.A - 1); math.Abs(ratio-d.Change.Estimate) > 1e-6*(100+math.Abs(ratio)) {
			t.Errorf("%s: %s of %s is %g instead of %g, and the change is %g %%", at, d.Metric, d.Treatment, *d.B, *d.A, d.Change.Estimate)
		}
	}
	words := report.WordsOf(r)
	for i, w := range words.Comparisons {
		c := r.Comparisons[i]
		if !strings.HasPrefix(w.Verdict, string(compare.NotShown)) || c.OnRatio {
			continue
		}
		read := func(claim report.Claim) bool {
			return claim.Subject == c.Treatment && (claim.Form.Name == "metered" || claim.Form.Name == "beside")
		}
		if c.Metric == "cpu_us_per_request/data" && slices.ContainsFunc(claims, read) {
			t.Errorf("%s: the CPU that %s adds is read, and its row has %q", at, c.Treatment, w.Verdict)
		}
		if m := plusMinus.FindStringSubmatch(strings.Fields(w.Difference)[0] + " " + w.Interval); m != nil && abs(number(m[1])) > number(m[2]) {
			t.Errorf("%s: row %s of %s: %s beside %s %s", at, c.Metric, c.Treatment, w.Verdict, w.Difference, w.Interval)
		}
		if m := rangeOf.FindStringSubmatch(w.Interval); m != nil && number(m[1])*number(m[2]) > 0 {
			t.Errorf("%s: row %s of %s: %s beside %s", at, c.Metric, c.Treatment, w.Verdict, w.Interval)
		}
	}
}

// beyondLimit compares the interval of a gate with its outcome.
func beyondLimit(d compare.Decision) string {
	if d.Change == nil || !d.Change.Known() || d.Why != "" || d.Doubts != nil {
		return ""
	}
	near, far, sign := *d.Change.Low, *d.Change.High, 1.0
	if !d.Upper {
		near, far, sign = -far, -near, -1
	}
	beyond, within := near > sign*d.Limit, far <= sign*d.Limit+d.Detect
	if beyond != (d.Outcome == compare.Breached) || within && d.Outcome == compare.Undecided || !within && d.Outcome == compare.Holds {
		return fmt.Sprintf("%g to %g, and a limit of %g", *d.Change.Low, *d.Change.High, d.Limit)
	}
	return ""
}

// aboutFailures compares a sentence about failures with the figures of the treatments. A run about changes has failures first.
func aboutFailures(wrong func(string, ...any), c report.Claim, r *answer.Report) {
	none := strings.Contains(strings.ToLower(c.Sentence), "no request failed")
	form := c.Form.Name
	if strings.HasPrefix(form, "change") && r.Count.Used > 0 && c.Sentence == report.Claims(r)[0].Sentence && !none && !strings.HasPrefix(c.Sentence, "Failed requests") {
		wrong("a run about changes begins with something else than failures")
	}
	for _, tr := range r.Treatments {
		for name, e := range tr.Metrics {
			failed := name == metric.ErrorRatio && strings.HasPrefix(form, "failures")
			for _, kind := range metric.ChangeKinds() {
				failed = failed || strings.HasPrefix(form, "change") && name == metric.Of(metric.ChangeFailed, kind.Name) && strings.Contains(c.Sentence, kind.One)
			}
			if none && failed && !tr.Control && e.Estimate > 0 {
				wrong("%s of %s is %g", name, tr.ID, e.Estimate)
			}
		}
	}
	for _, e := range r.Expectations {
		if strings.HasPrefix(c.Sentence, "Every target was met") && e.Held < e.N {
			wrong("%s of %s held in %d of %d", e.Expect, e.Treatment, e.Held, e.N)
		}
	}
}

// aboutRow compares a claim with its comparison. A metered plane needs no verdict: it is read.
func aboutRow(wrong func(string, ...any), c report.Claim, row compare.Comparison) {
	read := c.Form.Name == "metered" || c.Form.Name == "beside" || c.Form.Name == "ranked" && row.Metric == "cpu_us_per_request/data"
	if !read && c.Relation != row.Verdict {
		wrong("%s, but the row is %s", c.Relation, row.Verdict)
	}
	amount := row.Difference
	if c.OfRatio {
		amount = row.Ratio
	}
	if c.Amount != nil && (amount == nil || amount.Estimate != c.Amount.Estimate) {
		wrong("another amount than its row")
	}
}

// aboutExecutions compares a claim about programs that end with the row of its comparison. Without an interval nothing is shown or left
// open, unless all pairs agree.
func aboutExecutions(wrong func(string, ...any), c report.Claim, r *answer.Report) {
	if c.Subject == "" { // the empty program
		return
	}
	at := slices.IndexFunc(r.Comparisons, func(row compare.Comparison) bool { return row.Treatment == c.Subject && row.Metric == c.Metric })
	words := report.WordsOf(r).Comparisons[at].Verdict
	if want := cmp.Or(map[compare.Verdict]string{compare.Insufficient: "too few trials"}[c.Relation], string(c.Relation)); !strings.HasPrefix(words, want) {
		wrong("%s, but the row is %s", c.Relation, words)
	}
	if few := r.Comparisons[at].N < stats.MinN; few != (c.Relation == compare.Insufficient) && len(r.Decisions) == 0 || few && undecidedWords.MatchString(c.Sentence) {
		wrong("%s after %d", c.Relation, r.Comparisons[at].N)
	}
}

// ranked finds rankings without any verdict, and those of figures from fewer trials than an interval needs.
func ranked(t *testing.T, at string, claims []report.Claim, r *answer.Report) {
	t.Helper()
	for i, c := range claims {
		few := func(c report.Claim) bool {
			tr, ok := lists.First(r.Treatments, func(tr compare.Treatment) bool { return tr.ID == c.Subject })
			return ok && tr.N < stats.MinN && c.Amount != nil && !c.Amount.Known()
		}
		if c.Unit != "" && c.Metric == "money_per_month" && few(c) && c.Relation != compare.Insufficient {
			t.Errorf("%s: %s of too few trials: %s", at, c.Relation, c.Sentence)
		}
		shown := []compare.Verdict{compare.Higher, compare.Lower}
		if row, ok := r.Find(c.Subject, metric.Of(metric.CPUPer1000, "total")); ok && c.Metric == "money_per_month" && slices.Contains(shown, c.Relation) && !slices.Contains(shown, row.Verdict) {
			t.Errorf("%s: money is %s, and the CPU that it buys %s: %s", at, c.Relation, row.Verdict, c.Sentence)
		}
		if !strings.HasPrefix(c.Form.Name, "ranking") {
			continue
		}
		rows := claims[i+1:]
		if end := slices.IndexFunc(rows, func(c report.Claim) bool { return !strings.HasPrefix(c.Form.Name, "ranked") }); end >= 0 {
			rows = rows[:end]
		}
		if !slices.ContainsFunc(rows, func(c report.Claim) bool { return c.Form.Name == "ranked" && c.Relation != compare.Insufficient }) {
			t.Errorf("%s: a ranking without a verdict: %s", at, c.Sentence)
		}
	}
}

// aboutTrend compares a claim about the end of a soak with its trend.
func aboutTrend(wrong func(string, ...any), c report.Claim, r *answer.Report) {
	for _, x := range r.Trends {
		if x.Treatment == c.Subject && x.Metric == c.Metric {
			if c.Relation != compare.Verdict(x.Verdict) || c.Amount.Estimate != x.PerHour.Estimate {
				wrong("another trend than its row: %s, %g an hour", x.Verdict, x.PerHour.Estimate)
			}
			return
		}
	}
	wrong("there is no such trend")
}

// rendered finds every claim in every form.
func rendered(t *testing.T, at string, a answer.Analysis) {
	t.Helper()
	var text, comment, whole bytes.Buffer
	must.OK(t, report.WriteText(&text, a.Report, report.Options{}))
	formats := map[string]*bytes.Buffer{"text": &text, "comment": &comment, "page": &whole}
	must.OK(t, page.Write(&whole, page.Source{Analysis: a}))
	for _, f := range report.Formats(report.Options{}) {
		if f.Name == "comment" {
			must.OK(t, f.Write(&comment, a.Report))
		}
		if f.Name == "json" {
			var b bytes.Buffer
			must.OK(t, f.Write(&b, a.Report))
			var back struct{ Claims []json.RawMessage }
			must.OK(t, json.Unmarshal(b.Bytes(), &back))
			if len(back.Claims) != len(report.Claims(a.Report)) {
				t.Errorf("%s: %d claims in JSON", at, len(back.Claims))
			}
		}
	}
	var narrow bytes.Buffer
	must.OK(t, report.WriteText(&narrow, a.Report, report.Options{Width: 80}))
	for line := range strings.Lines(narrow.String()) {
		if tableOfDifferences.MatchString(line) && !strings.Contains(line, "verdict") {
			t.Errorf("%s: no verdict in 80 columns: %s", at, line)
		}
	}
	asWritten(t, at+", short text", narrow.String(), a.Report)
	asWritten(t, at+", text", text.String(), a.Report)
	asWritten(t, at+", comment", strings.ReplaceAll(comment.String(), "\\", ""), a.Report)
	onScreen := letters(strings.Join(live.HeadlineOf(a.Report).Answer, " "))
	for form, b := range formats {
		got := letters(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(b.String(), "")))
		for _, c := range report.Claims(a.Report) {
			underWay, _, _ := strings.Cut(c.Sentence, " About ") // a run that goes on is not to be repeated
			if !strings.Contains(got, letters(c.Sentence)) || !strings.Contains(onScreen, letters(underWay)) {
				t.Errorf("%s: %s without %q", at, form, c.Sentence)
			}
		}
	}
}

// asWritten finds identifiers of treatments that nobody wrote, and codes of warnings without their message, in a text.
func asWritten(t *testing.T, at, text string, r *answer.Report) {
	t.Helper()
	names := report.WordsOf(r).Names
	foreign := func(word string) bool { // in a longer word, such as the name of a trial
		return strings.ContainsAny(word, "-_.") || regexp.MustCompile(`^\w`).MatchString(word)
	}
	find := func(word string, right func(after string) bool) {
		for i := strings.Index(text, word); i >= 0; {
			end := i + len(word)
			if before, after := text[max(0, i-1):i], text[end:]; !foreign(before) && (after == "" || !foreign(after[:1]) || strings.HasPrefix(after, ". ")) && !right(after) {
				t.Errorf("%s: %q in %q", at, word, text[max(0, i-60):min(len(text), end+40)])
			}
			next := strings.Index(text[end:], word)
			if next < 0 {
				return
			}
			i = end + next
		}
	}
	for _, tr := range r.Treatments {
		if strings.Contains(tr.ID, "-") && names[tr.ID] != tr.ID && !slices.Contains(slices.Collect(maps.Values(names)), tr.ID) {
			find(tr.ID, func(string) bool { return false })
		}
	}
	explained := regexp.MustCompile(`^( \([^)]*\))?: `)
	codes := map[string]bool{}
	for _, w := range r.Warnings {
		codes[w.Code] = true
	}
	for _, trial := range r.Trials {
		for _, w := range trial.Warnings {
			codes[w.Code] = true
		}
	}
	for code := range codes {
		if strings.Contains(code, "-") {
			find(code, explained.MatchString)
		}
	}
}

// letters are a text's letters and digits: forms fold lines and escape signs.
func letters(s string) string { return regexp.MustCompile(`[^\pL\pN]+`).ReplaceAllString(s, "") }

func number(s string) float64 {
	v, _ := strconv.ParseFloat(strings.TrimPrefix(s, "+"), 64)
	return v
}

func abs(v float64) float64 { return max(v, -v) }
