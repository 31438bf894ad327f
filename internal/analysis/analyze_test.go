package analysis_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tare-mesh/tare/internal/analysis"
	"github.com/tare-mesh/tare/internal/analysis/analysistest"
	"github.com/tare-mesh/tare/internal/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

func analyse(t *testing.T, s analysistest.Study) *analysis.Report {
	t.Helper()
	r, err := analysis.Analyze(s.Write(t, filepath.Join(t.TempDir(), "run")), analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// quickstart is one report for the tests that only look.
var quickstart = sync.OnceValues(func() (*analysis.Report, error) {
	dir, err := os.MkdirTemp("", "tare-analysis-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	d, err := analysistest.Quickstart().Create(filepath.Join(dir, "run"))
	if err != nil {
		return nil, err
	}
	return analysis.Analyze(d, analysis.Options{})
})

func quickstartReport(t *testing.T) *analysis.Report {
	t.Helper()
	r, err := quickstart()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func find(t *testing.T, r *analysis.Report, treatment, metric string) analysis.Comparison {
	t.Helper()
	c, ok := r.Find(treatment, metric)
	if !ok {
		t.Fatalf("no comparison of %s of %s", metric, treatment)
	}
	return c
}

func hasWarning(ws []analysis.Warning, code string) bool {
	return slices.ContainsFunc(ws, func(w analysis.Warning) bool { return w.Code == code })
}

// covers reports whether the interval holds the truth; one in twenty need not, so the seeds are fixed.
func covers(i *stats.Interval, truth float64) bool {
	return i != nil && i.Known() && *i.Low <= truth && truth <= *i.High
}

func TestAnalyzeRecoversTheTruth(t *testing.T) {
	s := analysistest.Quickstart()
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
				if got.Difference.Known() || got.Verdict != analysis.NotShown || got.Ratio != nil {
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
			if want := map[bool]analysis.Verdict{true: analysis.Higher, false: analysis.NotShown}[c.truth > 1.1*c.reference]; math.Abs(c.truth-c.reference) > 0.1*c.reference && got.Verdict != want {
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
	s := analysistest.Quickstart()
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

func TestAnalyzeNotices(t *testing.T) {
	few := func(change func(*result.Record)) analysistest.Study {
		s := analysistest.Quickstart()
		s.Treatments = s.Treatments[:3]
		s.Blocks, s.Warmup, s.Measure, s.Rate = 4, 1, 2, 50
		s.Change = change
		return s
	}
	for _, c := range []struct {
		name  string
		study analysistest.Study
		check func(t *testing.T, r *analysis.Report)
		want  string // code of a report warning
	}{
		{"an invalid trial", few(func(r *result.Record) {
			if r.Block == 2 && r.Treatment == "envoy" {
				r.Valid = false
				r.Warnings = []result.Warning{{Code: "rate-missed", Message: "20 of 50 requests/s", Hint: "lower the rate", Invalidates: true}}
			}
		}), func(t *testing.T, r *analysis.Report) {
			c := find(t, r, "envoy", "cpu_us_per_request/total")
			if c.N != 3 || c.PairsLost != 1 || !hasWarning(c.Warnings, "pairs-lost") || r.Count.Invalid != 1 || r.Count.Used != 11 {
				t.Errorf("n %d, lost %d, count %+v", c.N, c.PairsLost, r.Count)
			}
			if !hasWarning(r.Warnings, "rate-missed") {
				t.Error("the reason is not among the warnings")
			}
		}, "invalid-trials"},
		{"failed trials", few(func(r *result.Record) {
			if r.Treatment == "envoy" && r.Block < 3 {
				*r = result.Record{ID: r.ID, Ordinal: r.Ordinal, Block: r.Block, Treatment: r.Treatment, Factors: r.Factors, Error: "deploy: envoy exited"}
			}
		}), func(t *testing.T, r *analysis.Report) {
			c := find(t, r, "envoy", "cpu_us_per_request/total")
			if c.Verdict != analysis.Insufficient || c.Difference == nil || c.Difference.Known() || c.P != nil || c.N != 2 || !hasWarning(c.Warnings, "few-trials") {
				t.Errorf("%+v", c)
			}
			if r.Count.Failed != 2 || !hasWarning(r.Warnings, "few-trials") {
				t.Errorf("count %+v, warnings %+v", r.Count, r.Warnings)
			}
		}, "failed-trials"},
		{"every trial of a treatment failed", few(func(r *result.Record) {
			if r.Treatment == "envoy" {
				r.Valid, r.Error = false, "deploy: envoy exited"
			}
		}), func(t *testing.T, r *analysis.Report) {
			if _, ok := r.Find("envoy", "rate"); ok || len(r.Treatments) != 3 || r.Treatments[2].N != 0 {
				t.Error("a treatment without trials is compared, or not listed")
			}
		}, "failed-trials"},
		{"an A/A pair that differs", few(func(r *result.Record) {
			if r.Control {
				r.Tasks[0].End.CPU += r.Tasks[0].End.CPU - r.Tasks[0].Start.CPU
			}
		}), func(t *testing.T, r *analysis.Report) {
			for _, f := range r.Floor {
				if f.Metric == "cpu_us_per_request/app" && f.Verdict != analysis.Higher {
					t.Errorf("floor %+v", f)
				}
			}
		}, "aa-differs"},
		{"an unread task", few(func(r *result.Record) {
			if r.Treatment == "envoy" && r.Block == 1 {
				r.Tasks[1].Missing = "no such process"
			}
		}), func(t *testing.T, r *analysis.Report) {
			if c := find(t, r, "envoy", "cpu_us_per_request/data"); c.N != 3 {
				t.Errorf("n = %d", c.N)
			}
			if c := find(t, r, "envoy", "cpu_us_per_request/app"); c.N != 4 {
				t.Errorf("the application is known in all blocks, n = %d", c.N)
			}
			if e := r.Treatments[2].Metrics["cpu_us_per_request/data"]; e.N != 3 || !hasWarning(e.Warnings, "unknown-in-trials") {
				t.Errorf("%+v", e)
			}
		}, "task-unread"},
		{"a late generator", few(func(r *result.Record) {
			r.Warnings = []result.Warning{{Code: "generator-late", Message: "late", Hint: "pin it", Metrics: []string{"latency_ms"}}}
		}), func(t *testing.T, r *analysis.Report) {
			if !hasWarning(find(t, r, "envoy", "latency_ms/p50").Warnings, "generator-late") || hasWarning(find(t, r, "envoy", "rate").Warnings, "generator-late") {
				t.Error("the warning is not with the figures it concerns")
			}
		}, "generator-late"},
		{"a count that is another trial's", few(func(r *result.Record) { r.Load.Classes["2xx"] += 40 }), func(t *testing.T, r *analysis.Report) {
			if _, ok := r.Find("envoy", "latency_ms/p50"); ok {
				t.Error("latencies are reported all the same")
			}
		}, "latency-count"},
		{"few requests for a tail", few(nil), func(t *testing.T, r *analysis.Report) {
			m := r.Treatments[0].Metrics
			if !hasWarning(m["latency_ms/p99"].Warnings, "too-few-requests") || hasWarning(m["latency_ms/p50"].Warnings, "too-few-requests") || hasWarning(m["latency_ms/p90"].Warnings, "too-few-requests") {
				t.Error("100 requests bear a p90 and no p99")
			}
		}, "too-few-requests"},
		{"no control", func() analysistest.Study {
			s := few(nil)
			s.Treatments = []analysistest.Treatment{s.Treatments[0], s.Treatments[2]}
			return s
		}(), func(t *testing.T, r *analysis.Report) {
			if len(r.Floor) != 0 {
				t.Error("a floor without a control")
			}
		}, "no-floor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := analyse(t, c.study)
			if !hasWarning(r.Warnings, c.want) {
				t.Errorf("no warning %s: %+v", c.want, r.Warnings)
			}
			for _, w := range r.Warnings {
				if w.Hint == "" || w.Message == "" {
					t.Errorf("%s names no cure", w.Code)
				}
			}
			c.check(t, r)
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		})
	}
}

// A difference that is the same in every block has a direction and no interval.
func TestAnalyzeConstantDifference(t *testing.T) {
	s := analysistest.Quickstart()
	s.Noise, s.Drift, s.Warmup, s.Measure, s.Rate = 0, 0, 1, 2, 50
	s.Treatments = s.Treatments[:3]
	s.Change = func(r *result.Record) {
		for i := range r.Tasks {
			u := &r.Tasks[i]
			u.End.At = u.Start.At.Add(2e9)
			u.End.CPU = u.Start.CPU + int64(20+10*len(r.Tasks))*1e6
		}
	}
	c := find(t, analyse(t, s), "envoy", "cpu_us_per_request/app")
	if c.Verdict != analysis.Higher || c.Difference.Known() || c.P != nil || !hasWarning(c.Warnings, "no-spread") {
		t.Errorf("%+v", c)
	}
}

func TestAnalyzeHolmFamilies(t *testing.T) {
	r := quickstartReport(t)
	for _, family := range []analysis.Family{analysis.Headline, analysis.Others, analysis.HeadlineAA, analysis.OthersAA} {
		var p, adjusted []float64
		for _, c := range r.Comparisons {
			if c.Family == family && c.P != nil {
				p, adjusted = append(p, *c.P), append(adjusted, *c.PAdjusted)
			}
		}
		if len(p) == 0 || !slices.Equal(stats.Holm(p), adjusted) {
			t.Errorf("%s: adjusted over another family", family)
		}
		if len(p) != r.Families[family] {
			t.Errorf("%s: %d tests are said, %d there", family, r.Families[family], len(p))
		}
	}
	for _, c := range r.Comparisons {
		if headline := slices.Contains(analysis.HeadlineMetrics(), c.Metric); headline != (c.Family == analysis.Headline || c.Family == analysis.HeadlineAA) || c.Control != (c.Family == analysis.HeadlineAA || c.Family == analysis.OthersAA) {
			t.Errorf("%s of %s is of family %s", c.Metric, c.Treatment, c.Family)
		}
	}
	for _, c := range r.Comparisons {
		if c.PAdjusted != nil && (c.Verdict == analysis.Higher || c.Verdict == analysis.Lower) != (*c.PAdjusted < 0.05) {
			t.Errorf("%s %s: %s at p %v", c.Treatment, c.Metric, c.Verdict, *c.PAdjusted)
		}
	}
}

// The JSON is the contract: these names, these kinds, nothing null.
func TestReportJSON(t *testing.T) {
	b, err := json.Marshal(quickstartReport(t))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for path, kind := range map[string]string{
		"schema": "string", "experiment": "string", "method": "string", "confidence": "number", "baseline/mesh": "string", "warnings": "list",
		"treatments/0/factors/mesh": "string", "treatments/0/n": "number", "treatments/2/metrics/cpu_us_per_request∕data/estimate": "number",
		"treatments/2/metrics/cpu_us_per_request∕data/low": "number", "treatments/2/metrics/cpu_us_per_request∕data/high": "number",
		"treatments/2/metrics/cpu_us_per_request∕data/unit": "string", "treatments/2/metrics/cpu_us_per_request∕data/n": "number",
		"treatments/2/metrics/cpu_us_per_request∕data/warnings": "list",
		"comparisons/0/factors/mesh":                            "string", "comparisons/0/against/mesh": "string", "comparisons/0/metric": "string", "comparisons/0/unit": "string",
		"comparisons/0/difference/estimate": "number", "comparisons/0/difference/low": "number", "comparisons/0/ratio/high": "number",
		"comparisons/0/n": "number", "comparisons/0/p": "number", "comparisons/0/p_adjusted": "number", "comparisons/0/verdict": "string", "comparisons/0/warnings": "list",
		"trials/0/id": "string", "trials/0/block": "number", "trials/0/factors/mesh": "string", "trials/0/valid": "bool",
		"trials/0/metrics/rate": "number", "trials/0/warnings": "list",
		"floor/0/metric": "string", "floor/0/difference/low": "number", "floor/0/detectable": "number",
	} {
		if got := kindAt(doc, strings.Split(path, "/")); got != kind {
			t.Errorf("%s is %s, want %s", path, got, kind)
		}
	}
	if strings.Contains(string(b), "null") {
		t.Error("something is null: what is unknown is absent")
	}
}

func kindAt(v any, path []string) string {
	for _, step := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[strings.ReplaceAll(step, "∕", "/")]
		case []any:
			i := int(step[0] - '0')
			if i >= len(x) {
				return "absent"
			}
			v = x[i]
		default:
			return "absent"
		}
	}
	switch v.(type) {
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "bool"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	}
	return "absent"
}

// A log that was cut off takes its trial's latencies along, and nothing else.
func TestAnalyzeDamagedLog(t *testing.T) {
	s := analysistest.Quickstart()
	s.Treatments = s.Treatments[:3]
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	var id string
	for _, trial := range d.Plan().Trials {
		if trial.Treatment == "envoy" && trial.Block == 3 {
			id = trial.ID
		}
	}
	path := d.TrialFile(id, result.LatencyFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, code string
		do         func() error
	}{
		{"cut", "latency-damaged", func() error { return os.WriteFile(path, b[:len(b)/2], 0o644) }},
		{"cut between lines", "latency-count", func() error {
			half := b[:len(b)/2]
			return os.WriteFile(path, half[:strings.LastIndex(string(half), "\n")+1], 0o644)
		}},
		{"doubled", "latency-count", func() error { return os.WriteFile(path, append(b, b...), 0o644) }},
		{"gone", "latency-missing", func() error { return os.Remove(path) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
			r, err := analysis.Analyze(d, analysis.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !hasWarning(r.Warnings, c.code) {
				t.Errorf("no warning %s: %+v", c.code, r.Warnings)
			}
			if lat, cpu := find(t, r, "envoy", "latency_ms/p50"), find(t, r, "envoy", "cpu_us_per_request/total"); lat.N != 5 || cpu.N != 6 {
				t.Errorf("latency in %d pairs, CPU in %d", lat.N, cpu.N)
			}
		})
	}
}

// Two rates with a baseline each, and a control each.
func TestAnalyzeTwoFactors(t *testing.T) {
	s := analysistest.Quickstart()
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
