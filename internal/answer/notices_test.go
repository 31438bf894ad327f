package answer_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func TestAnalyzeNotices(t *testing.T) {
	few := func(change func(*result.Record)) answertest.Study {
		s := answertest.Quickstart()
		s.Treatments = s.Treatments[:3]
		s.Blocks, s.Warmup, s.Measure, s.Rate = 4, 1, 2, 50
		s.Change = change
		return s
	}
	for _, c := range []struct {
		name  string
		study answertest.Study
		check func(t *testing.T, r *answer.Report)
		want  string // code of a report warning
	}{
		{"an invalid trial", few(func(r *result.Record) {
			if r.Block == 2 && r.Treatment == "envoy" {
				r.Valid = false
				r.Warnings = []result.Warning{{Code: "rate-missed", Message: "20 of 50 requests/s", Hint: "lower the rate", Invalidates: true}}
			}
		}), func(t *testing.T, r *answer.Report) {
			c := find(t, r, "envoy", "cpu_us_per_request/total")
			if d := difftest.Of("c.N", c.N, 3, "c.PairsLost", c.PairsLost, 1, `hasWarning(c.Warnings, "pairs-lost")`, hasWarning(c.Warnings, "pairs-lost"), true, "r.Count.Invalid", r.Count.Invalid, 1, "r.Count.Used", r.Count.Used, 11); d != "" {
				t.Errorf("%s: n %d, lost %d, count %+v", d, c.N, c.PairsLost, r.Count)
			}
			if !hasWarning(r.Warnings, "rate-missed") {
				t.Error("the reason is not among the warnings")
			}
		}, "invalid-trials"},
		{"failed trials", few(func(r *result.Record) {
			if r.Treatment == "envoy" && r.Block < 3 {
				*r = result.Record{ID: r.ID, Ordinal: r.Ordinal, Block: r.Block, Treatment: r.Treatment, Factors: r.Factors, Error: "deploy: envoy exited"}
			}
		}), func(t *testing.T, r *answer.Report) {
			c := find(t, r, "envoy", "cpu_us_per_request/total")
			if c.Verdict != compare.Insufficient || c.Difference == nil {
				t.Errorf("%+v", c)
			} else if d := difftest.Wrong("c.Difference.Known()", c.Difference.Known(), "c.P != nil", c.P != nil, "c.N != 2", c.N != 2, `!hasWarning(c.Warnings, "few-trials")`, !hasWarning(c.Warnings, "few-trials")); d != "" {
				t.Errorf("%s: %+v", d, c)
			}
			if r.Count.Failed != 2 || !hasWarning(r.Warnings, "few-trials") {
				t.Errorf("count %+v, warnings %+v", r.Count, r.Warnings)
			}
		}, "failed-trials"},
		{"every trial of a treatment failed", few(func(r *result.Record) {
			if r.Treatment == "envoy" {
				r.Valid, r.Error = false, "deploy: envoy exited"
			}
		}), func(t *testing.T, r *answer.Report) {
			if _, ok := r.Find("envoy", "rate"); ok || len(r.Treatments) != 3 || r.Treatments[2].N != 0 {
				t.Error("a treatment without trials is compared, or not listed")
			}
		}, "failed-trials"},
		{"trials failed of one cause", few(func(r *result.Record) {
			if r.Treatment == "envoy" {
				r.Valid, r.Error = false, fmt.Sprintf("deploy: 0 of 1 replicas after 2.%ds\n  pod web-7d%d-x: ErrImageNeverPull", r.Ordinal, r.Ordinal)
				r.Warnings = []result.Warning{{Code: "failed", Message: "the trial failed", Hint: "load the image", Invalidates: true}}
			}
			if r.Treatment == "none" && r.Block == 2 {
				r.Valid, r.Error = false, "deploy: quota exceeded"
			}
		}), func(t *testing.T, r *answer.Report) {
			w := r.Warnings[slices.IndexFunc(r.Warnings, func(w figures.Warning) bool { return w.Code == "failed-trials" })]
			if !strings.Contains(w.Message, " more: deploy: 0 of 1 replicas") || !strings.HasPrefix(w.Hint, "load the image; ") {
				t.Error(w.Message, w.Hint)
			} else if d := difftest.Of(`strings.Count(w.Message, "ErrImageNeverPull")`, strings.Count(w.Message, "ErrImageNeverPull"), 1, `strings.Count(w.Message, "quota exceeded")`, strings.Count(w.Message, "quota exceeded"), 1); d != "" {
				t.Error(d, w.Message, w.Hint)
			}
		}, "failed-trials"},
		{"trials failed of many causes", few(func(r *result.Record) {
			if causes := []string{"quota", "image", "port", "disk", "proxy", "name"}; r.Block <= 2 {
				r.Valid, r.Error = false, "deploy: "+causes[(r.Ordinal-1)%len(causes)]
			}
		}), func(t *testing.T, r *answer.Report) {
			w := r.Warnings[slices.IndexFunc(r.Warnings, func(w figures.Warning) bool { return w.Code == "failed-trials" })]
			if !strings.HasSuffix(w.Message, " and 3 more causes") {
				t.Error(w.Message)
			}
		}, "failed-trials"},
		{"an A/A pair that differs", few(func(r *result.Record) {
			if r.Control {
				r.Tasks[0].End.CPU += r.Tasks[0].End.CPU - r.Tasks[0].Start.CPU
			}
		}), func(t *testing.T, r *answer.Report) {
			for _, f := range r.Floor {
				if f.Metric == "cpu_us_per_request/app" && f.Verdict != compare.Higher {
					t.Errorf("floor %+v", f)
				}
			}
		}, "aa-differs"},
		{"an unread task", few(func(r *result.Record) {
			if r.Treatment == "envoy" && r.Block == 1 {
				r.Tasks[1].Missing = "no such process"
			}
		}), func(t *testing.T, r *answer.Report) {
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
		}), func(t *testing.T, r *answer.Report) {
			if !hasWarning(find(t, r, "envoy", "latency_ms/p50").Warnings, "generator-late") || hasWarning(find(t, r, "envoy", "rate").Warnings, "generator-late") {
				t.Error("the warning is not with the figures it concerns")
			}
		}, "generator-late"},
		{"a count that is another trial's", few(func(r *result.Record) { r.Load.Classes["2xx"] += 40 }), func(t *testing.T, r *answer.Report) {
			if _, ok := r.Find("envoy", "latency_ms/p50"); ok {
				t.Error("latencies are reported all the same")
			}
		}, "latency-count"},
		{"few requests for a tail", few(nil), func(t *testing.T, r *answer.Report) {
			m := r.Treatments[0].Metrics
			if !hasWarning(m["latency_ms/p99"].Warnings, "too-few-requests") || hasWarning(m["latency_ms/p50"].Warnings, "too-few-requests") || hasWarning(m["latency_ms/p90"].Warnings, "too-few-requests") {
				t.Error("100 requests bear a p90 and no p99")
			}
		}, "too-few-requests"},
		{"no control", func() answertest.Study {
			s := few(nil)
			s.Treatments = []answertest.Treatment{s.Treatments[0], s.Treatments[2]}
			return s
		}(), func(t *testing.T, r *answer.Report) {
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

// A log that was cut off takes its trial's latencies along, and nothing else.
func TestAnalyzeDamagedLog(t *testing.T) {
	s := answertest.Quickstart()
	s.Treatments = s.Treatments[:3]
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	var id string
	for _, trial := range d.Plan().Trials {
		if trial.Treatment == "envoy" && trial.Block == 3 {
			id = trial.ID
		}
	}
	if err := os.Remove(d.TrialFile(id, result.ManifestFile)); err != nil { // else the log is altered, whatever it has
		t.Fatal(err)
	}
	path := d.TrialFile(id, result.LatencyFile)
	b := must.Get(os.ReadFile(path))(t)
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
			must.OK(t, c.do())
			r := must.Get(answer.Analyze(d, compare.Options{}))(t)
			if !hasWarning(r.Warnings, c.code) {
				t.Errorf("no warning %s: %+v", c.code, r.Warnings)
			}
			i := slices.IndexFunc(r.Trials, func(t figures.Trial) bool { return t.ID == id })
			if _, known := r.Trials[i].Metrics["longest_outage_s"]; !known {
				t.Error("no request failed, and the longest outage is unknown")
			}
			if lat, cpu := find(t, r, "envoy", "latency_ms/p50"), find(t, r, "envoy", "cpu_us_per_request/total"); lat.N != 5 || cpu.N != 6 {
				t.Errorf("latency in %d pairs, CPU in %d", lat.N, cpu.N)
			}
		})
	}
}

// A run that was interrupted is reported as far as it went.
func TestAnalyzeInterrupted(t *testing.T) {
	s := answertest.Quickstart()
	s.Treatments, s.Blocks, s.Warmup, s.Measure, s.Rate = s.Treatments[:3], 4, 1, 2, 50
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	must.OK(t, os.Remove(filepath.Join(d.Path(), result.SumsFile)))
	for _, trial := range d.Plan().Trials[7:] {
		must.OK(t, os.Remove(d.TrialFile(trial.ID, result.RecordFile)))
	}
	r := must.Get(answer.Analyze(d, compare.Options{}))(t)
	if r.Count.Missing != 5 || r.Count.Used != 7 || !hasWarning(r.Warnings, "missing-trials") {
		t.Errorf("count %+v, warnings %+v", r.Count, r.Warnings)
	}
	if c := find(t, r, "envoy", "cpu_us_per_request/total"); c.Verdict != compare.Insufficient || c.N+c.PairsLost != 4 {
		t.Errorf("%+v", c)
	}
}
