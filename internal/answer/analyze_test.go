package answer_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func analyse(t *testing.T, s answertest.Study) *answer.Report {
	t.Helper()
	r := must.Get(answer.Analyze(s.Write(t, filepath.Join(t.TempDir(), "run")), compare.Options{}))(t)
	return r
}

// quickstart is one report for the tests that only look.
var quickstart = sync.OnceValues(func() (*answer.Report, error) {
	dir, err := os.MkdirTemp("", "tare-analysis-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	d, err := answertest.Quickstart().Create(filepath.Join(dir, "run"))
	if err != nil {
		return nil, err
	}
	return answer.Analyze(d, compare.Options{})
})

func quickstartReport(t *testing.T) *answer.Report {
	t.Helper()
	r := must.Get(quickstart())(t)
	return r
}

func find(t *testing.T, r *answer.Report, treatment, metric string) compare.Comparison {
	t.Helper()
	c, ok := r.Find(treatment, metric)
	if !ok {
		t.Fatalf("no comparison of %s of %s", metric, treatment)
	}
	return c
}

func hasWarning(ws []figures.Warning, code string) bool {
	return slices.ContainsFunc(ws, func(w figures.Warning) bool { return w.Code == code })
}

// covers reports whether the interval holds the truth; one in twenty need not, so the seeds are fixed.
func covers(i *stats.Interval, truth float64) bool {
	return i != nil && i.Known() && *i.Low <= truth && truth <= *i.High
}

func TestAnalyzeRecoversTheTruth(t *testing.T) {
	s := answertest.Quickstart()
	s.Drift = 0
	r := analyse(t, s)
	base := s.Treatments[0].Truth
	missed := 0
	for _, tr := range s.Treatments[1:] {
		for _, c := range []struct {
			metric           string
			truth, reference float64
		}{
			{"cpu_us_per_request/app", tr.Truth.AppUS, base.AppUS},
			{"cpu_us_per_request/data", tr.Truth.DataUS, base.DataUS},
			{"cpu_us_per_request/total", tr.Truth.AppUS + tr.Truth.DataUS, base.AppUS},
			{"memory_mib/data", tr.Truth.DataMiB, base.DataMiB},
			{"latency_ms/p50", tr.Truth.MedianMS + 0.005, base.MedianMS + 0.005},
		} {
			got := find(t, r, tr.ID, c.metric)
			if tr.Truth.DataUS == 0 && c.truth == 0 {
				if got.Difference.Known() || got.Verdict != compare.NotShown || got.Ratio != nil {
					t.Errorf("%s %s: zero against zero gives %+v", tr.ID, c.metric, got)
				}
				continue
			}
			if !covers(got.Difference, c.truth-c.reference) {
				missed++
				t.Logf("%s %s: %v..%v, truth %v", tr.ID, c.metric, *got.Difference.Low, *got.Difference.High, c.truth-c.reference)
			}
			if c.reference > 0 && !covers(got.Ratio, c.truth/c.reference) {
				missed++
			}
			if want := map[bool]compare.Verdict{true: compare.Higher, false: compare.NotShown}[c.truth > 1.1*c.reference]; math.Abs(c.truth-c.reference) > 0.1*c.reference && got.Verdict != want {
				t.Errorf("%s %s: %s, want %s", tr.ID, c.metric, got.Verdict, want)
			}
		}
	}
	// 33 intervals at 95 %: two may miss, four would be a bias.
	if missed > 3 {
		t.Errorf("%d intervals miss the truth", missed)
	}
	if hasWarning(r.Warnings, "aa-differs") || hasWarning(r.Warnings, "no-floor") {
		t.Errorf("warnings %+v", r.Warnings)
	}
}

// A drift of half the cost over the run leaves the paired differences as they are.
func TestAnalyzeDriftIsPairedAway(t *testing.T) {
	s := answertest.Quickstart()
	s.Drift, s.Blocks, s.Warmup, s.Measure, s.Rate = 0.5, 12, 1, 2, 50
	s.Treatments = s.Treatments[:3]
	r := analyse(t, s)
	c := find(t, r, "envoy", "cpu_us_per_request/total")
	if !covers(c.Ratio, 246.0/60) {
		t.Errorf("ratio %+v", c.Ratio)
	}
	if half, _ := c.Ratio.HalfWidth(); half > 0.25 {
		t.Errorf("the ratio is known to ±%v only", half)
	}
	if f := r.Floor; len(f) == 0 || hasWarning(r.Warnings, "aa-differs") {
		t.Errorf("floor of %d, warnings %+v", len(f), r.Warnings)
	}
}

// A difference without spread has no interval. Its p-value is the exact one of its number,
// and Holm's adjustment applies to it as to any other: six equal pairs alone are shown,
// among many comparisons they are not.
func TestAnalyzeConstantDifference(t *testing.T) {
	s := answertest.Quickstart()
	s.Noise, s.Drift, s.Warmup, s.Measure, s.Rate = 0, 0, 1, 2, 50
	s.Treatments = s.Treatments[:3]
	s.Change = func(r *result.Record) {
		for i := range r.Tasks {
			u := &r.Tasks[i]
			u.End.At = u.Start.At.Add(2e9)
			u.End.CPU = u.Start.CPU + int64(20+10*len(r.Tasks))*1e6
		}
	}
	r := analyse(t, s)
	c := find(t, r, "envoy", "cpu_us_per_request/app")
	if c.Difference.Known() || !hasWarning(c.Warnings, "no-spread") || c.P == nil {
		t.Errorf("%+v", c)
	} else if d := difftest.Wrong("*c.P != 1.0/32", *c.P != 1.0/32); d != "" {
		t.Errorf("%s: %+v", d, c)
	}
	var p []float64
	var own int
	for i := range r.Comparisons {
		if o := r.Comparisons[i]; o.Family == c.Family && o.Question == c.Question && o.P != nil {
			if o.Metric == c.Metric {
				own = len(p)
			}
			p = append(p, *o.P)
		}
	}
	adjusted := stats.Holm(p)[own]
	if len(p) < 4 || c.PAdjusted == nil {
		t.Errorf("%d tests, adjusted to %v, expected %v: %s", len(p), c.PAdjusted, adjusted, c.Verdict)
	} else if d := difftest.Of("*c.PAdjusted", *c.PAdjusted, adjusted, "adjusted < 0.05", adjusted < 0.05, false, "c.Verdict", c.Verdict, compare.NotShown); d != "" {
		t.Errorf("%s: %d tests, adjusted to %v, expected %v: %s", d, len(p), c.PAdjusted, adjusted, c.Verdict)
	}
}

// Families follow questions: each treatment against its baseline is adjusted by itself, and
// A/A pairs have their own.
func TestAnalyzeHolmFamilies(t *testing.T) {
	r := quickstartReport(t)
	type family struct {
		question string
		of       compare.Family
	}
	p, adjusted, sizes := map[family][]float64{}, map[family][]float64{}, map[compare.Family]int{}
	for _, c := range r.Comparisons {
		if c.P != nil {
			f := family{c.Question, c.Family}
			if f.of == compare.Headline {
				f.question = "" // of all questions
			}
			p[f], adjusted[f] = append(p[f], *c.P), append(adjusted[f], *c.PAdjusted)
			sizes[c.Family]++
		}
		if c.Control != (c.Question == "") {
			t.Errorf("%s of %s: question %q", c.Metric, c.Treatment, c.Question)
		}
	}
	if len(r.Questions) != 3 || len(p) != 1+3+2 {
		t.Errorf("%d questions, %d families", len(r.Questions), len(p))
	}
	for f := range p {
		if !slices.Equal(stats.Holm(p[f]), adjusted[f]) {
			t.Errorf("%v: adjusted over another family", f)
		}
	}
	for _, q := range r.Questions {
		if len(q.Treatments) != 1 || q.Pooled != nil || q.Tests != len(p[family{"", compare.Headline}]) {
			t.Errorf("%+v", q)
		}
	}
	for f, n := range r.Families {
		if n != sizes[f] {
			t.Errorf("%s: the report has %d tests, the comparisons %d", f, n, sizes[f])
		}
	}
	for _, c := range r.Comparisons {
		if headline := slices.Contains(metric.Headlines(), c.Metric); headline != (c.Family == compare.Headline || c.Family == compare.HeadlineAA) || c.Control != (c.Family == compare.HeadlineAA || c.Family == compare.OthersAA) {
			t.Errorf("%s of %s is of family %s", c.Metric, c.Treatment, c.Family)
		}
	}
	for _, c := range r.Comparisons {
		if c.PAdjusted != nil && (c.Verdict == compare.Higher || c.Verdict == compare.Lower) != (*c.PAdjusted < 0.05) {
			t.Errorf("%s %s: %s at p %v", c.Treatment, c.Metric, c.Verdict, *c.PAdjusted)
		}
	}
}

// Two rates with a baseline each, and a control each.
func TestAnalyzeTwoFactors(t *testing.T) {
	s := answertest.Quickstart()
	one := s.Treatments[:3]
	s.Treatments = nil
	for _, rate := range []float64{100, 200} {
		for _, tr := range one {
			id := "-rate100"
			if rate == 200 {
				id = "-rate200"
			}
			tr.Factors = plan.Factors{"mesh": tr.Factors["mesh"], "rate": rate}
			tr.ID += id
			if tr.Baseline != "" {
				tr.Baseline += id
			}
			s.Treatments = append(s.Treatments, tr)
		}
	}
	s.Rate, s.Measure = 100, 2
	r := analyse(t, s)
	if len(r.Baseline) != 1 || r.Baseline["mesh"] != "none" {
		t.Errorf("baseline %v", r.Baseline)
	}
	c := find(t, r, "envoy-rate200", "cpu_us_per_request/total")
	if c.Against["rate"] != 200.0 || c.Against["mesh"] != "none" {
		t.Errorf("against %v", c.Against)
	}
	floors := map[any]bool{}
	for _, f := range r.Floor {
		floors[f.Factors["rate"]] = true
	}
	if len(floors) != 2 {
		t.Errorf("floors at %v", floors)
	}
}
