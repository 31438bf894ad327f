package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/answer/answertest"
	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/cli/clitest"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/live"
	"github.com/tare-mesh/tare/internal/show/page"
	"github.com/tare-mesh/tare/internal/show/report"
)

// Every claim of the recorded results, after each of their first blocks, is in every form of the report, and contradicts no row of its
// table.
func TestClaimsAgreeWithTheirTables(t *testing.T) {
	reports := 0
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
			if n == 0 {
				rendered(t, at, answer.Analysis{Dir: d, Report: r})
			}
		}
	}
	if reports < 40 {
		t.Errorf("only %d reports", reports)
	}
}

// recorded are the results directories of the repository, the shared ones if they are there, and studies with known values.
func recorded(t *testing.T) map[string]*result.Dir {
	all := map[string]*result.Dir{}
	for _, pattern := range []string{"../../docs/pictures/*.tar.gz", "testdata/*/*.tar.gz", "../../../../shared/data/claims/*.tar.gz"} {
		archives := must.Get(filepath.Glob(pattern))(t)
		for _, archive := range archives {
			dir := filepath.Join(t.TempDir(), "results")
			clitest.Unpack(t, archive, dir)
			all[filepath.Base(archive)] = must.Get(result.Open(dir))(t)
		}
	}
	for name, s := range map[string]answertest.Study{"quickstart": answertest.Quickstart(), "two rates": answertest.TwoRates(), "ab": answertest.AB(0.03, 12), "outlier": answertest.ABWithOutlier()} {
		all[name] = s.Write(t, filepath.Join(t.TempDir(), "results"))
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
	allValid       = regexp.MustCompile(`All [0-9]+ trials are valid|The trial is valid`)
)

// agrees compares each claim with the comparison that it is about, and its words with both.
func agrees(t *testing.T, at string, r *answer.Report) {
	t.Helper()
	claims := report.Claims(r)
	doubted := slices.ContainsFunc(claims, func(c report.Claim) bool { return c.Form == "doubt" || c.Form == "other-work" })
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
		if row, ok := r.Find(c.Subject, c.Metric); ok {
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
	words := report.WordsOf(r)
	for i, w := range words.Comparisons {
		c := r.Comparisons[i]
		if !strings.HasPrefix(w.Verdict, string(compare.NotShown)) || c.OnRatio {
			continue
		}
		if m := plusMinus.FindStringSubmatch(strings.Fields(w.Difference)[0] + " " + w.Interval); m != nil && abs(number(m[1])) > number(m[2]) {
			t.Errorf("%s: row %s of %s: %s beside %s %s", at, c.Metric, c.Treatment, w.Verdict, w.Difference, w.Interval)
		}
		if m := rangeOf.FindStringSubmatch(w.Interval); m != nil && number(m[1])*number(m[2]) > 0 {
			t.Errorf("%s: row %s of %s: %s beside %s", at, c.Metric, c.Treatment, w.Verdict, w.Interval)
		}
	}
}

// aboutFailures compares a sentence about failures with the figures of the treatments. A run about changes has failures first.
func aboutFailures(wrong func(string, ...any), c report.Claim, r *answer.Report) {
	none := strings.Contains(strings.ToLower(c.Sentence), "no request failed")
	if c.Form == "change" && r.Count.Used > 0 && c == report.Claims(r)[0] && !none && !strings.HasPrefix(c.Sentence, "Failed requests") {
		wrong("a run about changes begins with something else than failures")
	}
	for _, tr := range r.Treatments {
		for name, e := range tr.Metrics {
			failed := name == metric.ErrorRatio && c.Form == "failures"
			for _, kind := range metric.ChangeKinds() {
				failed = failed || c.Form == "change" && name == metric.Of(metric.ChangeFailed, kind.Name) && strings.Contains(c.Sentence, kind.One)
			}
			if none && failed && !tr.Control && e.Estimate > 0 {
				wrong("%s of %s is %g", name, tr.ID, e.Estimate)
			}
		}
	}
	for _, e := range r.Expectations {
		if c.Sentence == "Every target was met in every trial." && e.Held < e.N {
			wrong("%s of %s held in %d of %d", e.Expect, e.Treatment, e.Held, e.N)
		}
	}
}

// aboutRow compares a claim with its comparison. A metered plane needs no verdict: it is read.
func aboutRow(wrong func(string, ...any), c report.Claim, row compare.Comparison) {
	read := strings.HasPrefix(string(c.Form), "metered") || c.Form == "ranked" && row.Metric == "cpu_us_per_request/data"
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
			var back struct{ Claims []report.Claim }
			must.OK(t, json.Unmarshal(b.Bytes(), &back))
			if len(back.Claims) != len(report.Claims(a.Report)) {
				t.Errorf("%s: %d claims in JSON", at, len(back.Claims))
			}
		}
	}
	onScreen := letters(strings.Join(live.HeadlineOf(a.Report).Answer, " "))
	for form, b := range formats {
		got := letters(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(b.String(), "")))
		for _, c := range report.Claims(a.Report) {
			if !strings.Contains(got, letters(c.Sentence)) || !strings.Contains(onScreen, letters(c.Sentence)) {
				t.Errorf("%s: %s without %q", at, form, c.Sentence)
			}
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
