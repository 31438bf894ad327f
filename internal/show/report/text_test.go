package report

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func reportOf(t *testing.T, s answertest.Study) *answer.Report {
	t.Helper()
	r := must.Get(answer.Analyze(s.Write(t, filepath.Join(t.TempDir(), "run")), compare.Options{}))(t)
	return r
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must.OK(t, os.WriteFile(path, got, 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; `go test ./internal/show/report -update` rewrites it if the new one is right\n%s", path, got)
	}
}

// small is a study of three treatments and few requests.
func small(change func(*result.Record)) answertest.Study {
	s := answertest.Quickstart()
	s.Name, s.Treatments = "small", s.Treatments[:3]
	s.Blocks, s.Warmup, s.Measure, s.Rate = 4, 1, 2, 100
	s.Change = change
	return s
}

// troubled has nearly every kind of failure that a report has to show.
func troubled() answertest.Study {
	return small(func(r *result.Record) {
		switch {
		case r.Treatment == "envoy" && r.Block == 1:
			*r = result.Record{ID: r.ID, Ordinal: r.Ordinal, Block: r.Block, Treatment: r.Treatment, Factors: r.Factors, Started: r.Started, Ended: r.Ended,
				Error: "deploy: envoy of pod echo-0 exited: exit status 1\nsee its log"}
		case r.Treatment == "envoy" && r.Block == 2:
			r.Valid = false
			r.Warnings = []result.Warning{{Code: "rate-missed", Message: "91 of 100 requests/s were answered", Hint: "lower the rate, or give the load generator a core of its own", Invalidates: true}}
		case r.Treatment == "none-control":
			r.Tasks[0].End.CPU += (r.Tasks[0].End.CPU - r.Tasks[0].Start.CPU) / 3
		case r.Treatment == "none" && r.Block == 3:
			r.Tasks[0].Missing = "no such process"
		}
		if r.Treatment == "none" && r.Error == "" {
			r.Warnings = append(r.Warnings, result.Warning{Code: "generator-late", Message: "requests were sent 1.8 ms late (p99)", Hint: "pin the load generator to a core of its own", Metrics: []string{"latency_ms"}})
		}
	})
}

func TestTextGolden(t *testing.T) {
	quick := reportOf(t, answertest.Quickstart())
	twoBlocks := small(nil)
	twoBlocks.Blocks, twoBlocks.Treatments = 2, append(twoBlocks.Treatments[:1:1], twoBlocks.Treatments[2])
	oneTreatment := small(nil)
	oneTreatment.Treatments = oneTreatment.Treatments[:2]
	few := reportOf(t, twoBlocks)
	few.Directory = "runs/small"
	for _, c := range []struct {
		file string
		r    *answer.Report
		o    Options
	}{
		{"quickstart.txt", quick, Options{}},
		{"quickstart-80.txt", quick, Options{Width: 80}},
		{"quickstart-all.txt", quick, Options{All: true, Width: 120}},
		{"troubled.txt", reportOf(t, troubled()), Options{Width: 100}},
		{"two-rates.txt", reportOf(t, answertest.TwoRates()), Options{Width: 160}},
		{"one-treatment.txt", reportOf(t, oneTreatment), Options{Width: 100}},
		{"two-blocks.txt", few, Options{Width: 100}},
	} {
		var b bytes.Buffer
		must.OK(t, writeText(&b, c.r, c.o))
		golden(t, c.file, b.Bytes())
		checkWidth(t, c.file, b.String(), c.o.Width)
	}
}

// checkWidth holds every line to the width, and free of control characters and trailing space.
func checkWidth(t *testing.T, file, text string, width int) {
	t.Helper()
	for i, line := range strings.Split(text, "\n") {
		if w := ansi.StringWidth(line); width > 0 && w > width {
			t.Errorf("%s:%d is %d columns wide", file, i+1, w)
		}
		if strings.HasSuffix(line, " ") || strings.ContainsAny(line, "\t\x1b\r") {
			t.Errorf("%s:%d: %q", file, i+1, line)
		}
	}
}

// A generator with service times alone is shown with them, and the meaning of
// its latency is printed once.
func TestTextOfOtherGenerators(t *testing.T) {
	r := reportOf(t, small(func(rec *result.Record) {
		if rec.Treatment == "envoy" {
			rec.Load.Generator, rec.Load.Loop = "hey", "paced"
			rec.Load.Published = []result.Latency{{Source: "hey", Of: "service", Meaning: "from the call to the last byte"}}
		}
	}))
	var b bytes.Buffer
	must.OK(t, WriteText(&b, r, Options{}))
	const meaning = "hey, service time: from the call to the last byte"
	if got := b.String(); strings.Count(got, meaning) != 1 || strings.Contains(got, "service time  ") || !strings.Contains(got, "mixed loop") {
		t.Errorf("response times are known, and the report has\n%s", got)
	}
	for _, tr := range r.Treatments {
		if tr.ID == "envoy" {
			delete(tr.Metrics, "latency_ms/p50")
		}
	}
	b.Reset()
	must.OK(t, WriteText(&b, r, Options{}))
	must.Contain(t, b.String(), "service time  ")
}

// A long report has the means over the levels of a sweep, and the levels with --all.
func TestLongReportFolds(t *testing.T) {
	s := small(nil)
	one := s.Treatments
	s.Treatments = nil
	for rate := 40.0; rate <= 130; rate += 10 {
		for _, i := range []int{0, 2} {
			tr, suffix := one[i], fmt.Sprintf("-rate%.0f", rate)
			tr.Factors = plan.Factors{"mesh": tr.Factors["mesh"], "rate": rate}
			if tr.ID += suffix; tr.Baseline != "" {
				tr.Baseline += suffix
			}
			s.Treatments = append(s.Treatments, tr)
		}
	}
	r := reportOf(t, s)
	var short, all bytes.Buffer
	must.OK(t, WriteText(&short, r, Options{}))
	must.OK(t, writeText(&all, r, Options{All: true}))
	for _, want := range []string{"more, on average over 10 rates: 63 µs", "envoy against no mesh, mean over 10 levels", "10 more comparisons not shown here: see --all."} {
		if !strings.Contains(short.String(), want) {
			t.Errorf("no %q in\n%s", want, short.String())
		}
	}
	if strings.Contains(short.String(), "envoy, rate 70 against no mesh") || !strings.Contains(all.String(), "envoy, rate 70 against no mesh") {
		t.Errorf("levels are in the short report, or not in the long one:\n%s", short.String())
	}
	if strings.Count(short.String(), "\n") > 80 {
		t.Errorf("%d lines", strings.Count(short.String(), "\n"))
	}
}

// With a pattern, the text has these metrics and their differences, and no other.
func TestTextOfChosenMetrics(t *testing.T) {
	r := reportOf(t, small(nil))
	for pattern, want := range map[string][2][]string{
		"memory_mib":     {{"memory_mib/data", "memory_mib/app", "memory, data plane"}, {"latency_ms", "CPU/request, total", "memory_peak_mib"}},
		"latency_ms/p9*": {{"latency_ms/p90", "latency_ms/p99.9", "response time, p99"}, {"latency_ms/p50", "memory"}},
		"*cores*/app":    {{"cpu_cores/app"}, {"cpu_cores/data", "latency_ms"}},
	} {
		var b strings.Builder
		must.OK(t, WriteText(&b, r, Options{Metric: pattern}))
		_, tables, _ := strings.Cut(b.String(), "Metrics\n")
		tables, _, _ = strings.Cut(tables, "Warnings")
		for _, text := range want[0] {
			if !strings.Contains(tables, text) {
				t.Errorf("%s: no %q in\n%s", pattern, text, b.String())
			}
		}
		for _, text := range want[1] {
			if strings.Contains(tables, text) {
				t.Errorf("%s: %q in\n%s", pattern, text, b.String())
			}
		}
	}
}
