package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/debatetest"
	"github.com/tare-mesh/tare/test/must"
)

// imported imports sources and returns the results directory.
func imported(t *testing.T, source string, paths ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "imported")
	must.Get(call(t, newImportCommand, append([]string{source, "--out", out}, paths...)...))(t)
	return out
}

// reportOf returns the JSON report of a results directory.
func reportOf(t *testing.T, dir string, flags ...string) *answer.Report {
	t.Helper()
	text := must.Get(call(t, newReportCommand, append([]string{dir, "--format", "json"}, flags...)...))(t)
	var r answer.Report
	must.OK(t, json.Unmarshal([]byte(text), &r))
	return &r
}

func treatmentOf(t *testing.T, r *answer.Report, mesh string, rate float64) compare.Treatment {
	t.Helper()
	for _, tr := range r.Treatments {
		if tr.Factors["mesh"] == mesh && tr.Factors["rate"] == rate {
			return tr
		}
	}
	t.Fatalf("no treatment %s at %v", mesh, rate)
	return compare.Treatment{}
}

// debateData is V1 of the Great Sidecar Debate. It is not part of this
// repository: a directory shared/data beside it, or $TARE_DEBATE_DATA.
func debateData(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("TARE_DEBATE_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data", "great-sidecar-debate", "V1")
	}
	if _, err := os.Stat(filepath.Join(dir, "linkerd", "60-1-metrics.csv")); err != nil {
		t.Skipf("the debate's data is absent: set TARE_DEBATE_DATA to its directory V1/Data (%v)", err)
	}
	return must.Get(filepath.EvalSymlinks(dir))(t) // an import follows no link
}

// The debate's published figures, from its own data, to 0.1 millicore.
func TestDebateAsPublished(t *testing.T) {
	data := debateData(t)
	dir := imported(t, "great-sidecar-debate", filepath.Join(data, "ambient"), filepath.Join(data, "linkerd"))
	r := reportOf(t, dir, "--method", "as-published")
	if r.Method != compare.AsPublished || len(r.Comparisons) > 0 {
		t.Errorf("method %s with %d comparisons", r.Method, len(r.Comparisons))
	}
	rates := []float64{60, 120, 240, 600, 1200}
	for mesh, want := range map[string][]float64{"linkerd": {154.6, 299.2, 599.9, 1426.6, 2621.4}, "ambient": {270.0, 542.6, 1120.2, 2574.9, 5185.9}} {
		for i, rate := range rates {
			e := treatmentOf(t, r, mesh, rate).Metrics["cpu_cores/data"]
			if math.Abs(e.Estimate*1000-want[i]) > 0.05+1e-9 || e.N != 5 || e.Known() {
				t.Errorf("%s at %v: %.3f millicores of %d runs, published %v", mesh, rate, e.Estimate*1000, e.N, want[i])
			}
		}
	}
}

// With tare's method the ranking of the two meshes depends on the planes that count.
func TestDebateAnsweredAgain(t *testing.T) {
	data := debateData(t)
	dir := imported(t, "great-sidecar-debate", filepath.Join(data, "ambient"), filepath.Join(data, "linkerd"))
	r := reportOf(t, dir, "--baseline", "mesh=linkerd")
	if r.Method != compare.Unpaired || r.Baseline["mesh"] != "linkerd" || r.Count.Used != 50 {
		t.Errorf("method %s, baseline %v, %d used", r.Method, r.Baseline, r.Count.Used)
	}
	for _, c := range r.Comparisons {
		if c.Metric == "cpu_cores/data" && (c.Verdict != compare.Higher || c.Ratio.Estimate < 1.7 || c.Ratio.Estimate > 2) {
			t.Errorf("%v: data plane %v, %s", c.Factors, c.Ratio.Estimate, c.Verdict)
		}
		if c.Metric == "cpu_cores/cluster" && c.Factors["rate"] != 1200.0 && c.Verdict != compare.NotShown {
			t.Errorf("%v: cluster %v, %s", c.Factors, c.Ratio.Estimate, c.Verdict)
		}
	}
	tr := treatmentOf(t, r, "ambient", 240)
	if len(tr.Roles) != 2 || tr.Roles[0].Role != "node-proxy" || math.Abs(tr.Roles[0].Metrics["cpu_cores"].Estimate-0.5326) > 0.005 {
		t.Errorf("roles %+v", tr.Roles)
	}
	text, err := call(t, newReportCommand, dir, "--all")
	for _, want := range []string{"CPU at each boundary", "whole cluster", "false-timeouts (30 of 50", "no-baseline", "not-interleaved"} {
		must.OK(t, err)
		must.Contain(t, text, want)
	}
}

// Both methods recover the truth of a synthetic sequence.
func TestSyntheticSequences(t *testing.T) {
	root := t.TempDir()
	rates := []int{60, 120, 240, 480}
	sequences := []debatetest.Sequence{
		{Mesh: "linkerd", Dir: "linkerd-00", Rates: rates, Seed: 1}, {Mesh: "linkerd", Dir: "linkerd-01", Rates: rates, Seed: 11},
		{Mesh: "istio", Rates: rates, Nodes: 3, Oha: "repr", Pods: 1, Seed: 2}, {Mesh: "unmeshed", Rates: rates, Oha: "bytes", Pods: 1, Seed: 3},
	}
	for _, q := range sequences {
		q.Write(t, root)
	}
	dir := imported(t, "great-sidecar-debate", root)
	own, published := reportOf(t, dir), reportOf(t, dir, "--method", "as-published")
	for _, q := range sequences {
		for _, rate := range rates {
			for column, part := range map[string]string{"data-plane": "data", "control-plane": "control", "faces": "app", "mesh": "mesh", "business": "business", "overhead": "platform", "total": "cluster"} {
				if q.Oha != "" && (part == "business" || part == "cluster") {
					continue // oha's own container has no column to compare with
				}
				want := q.Cores(column, rate)
				for _, r := range []*answer.Report{own, published} {
					tr := treatmentOf(t, r, q.Mesh, float64(rate))
					e := tr.Metrics["cpu_cores/"+part]
					if math.Abs(e.Estimate-want) > 0.03*want+1e-9 || e.N != map[string]int{"linkerd": 10}[q.Mesh]+5*min(1, len(q.Oha)) {
						t.Errorf("%s, %s at %d, %s: %v of %d, made with %v", r.Method, q.Mesh, rate, part, e.Estimate, e.N, want)
					}
				}
			}
		}
	}
	for _, c := range own.Comparisons {
		if c.Against["mesh"] != "unmeshed" || c.Against["rate"] != c.Factors["rate"] {
			t.Errorf("%v is compared with %v", c.Factors, c.Against)
		}
	}
	lined := false
	for _, l := range own.Lines {
		if l.Factors["mesh"] == "istio" && l.Part == "data" && l.Role == "" {
			lined = true
			// debatetest generates 0.16 cores without load and 4.3 ms of CPU per request.
			if math.Abs(l.FixedCores.Estimate-0.16) > 0.03 || math.Abs(l.PerRequestUS.Estimate-4300) > 130 {
				t.Errorf("line %v + %v", l.FixedCores.Estimate, l.PerRequestUS.Estimate)
			}
		}
	}
	if !lined {
		t.Error("no line")
	}
	if treatmentOf(t, own, "unmeshed", 60).Metrics["cpu_cores/data"].Estimate != 0 {
		t.Error("a data plane without a mesh")
	}
}

// Untrustworthy sources are named, the others are imported, and the exit code reports it.
func TestImportOfDamagedFiles(t *testing.T) {
	dir := debatetest.Sequence{Mesh: "linkerd", Rates: []int{60}, Change: func(name string, b []byte) []byte {
		if name == "60-3-metrics.csv" {
			return b[:len(b)/2]
		}
		return b
	}}.Write(t, t.TempDir())
	out := filepath.Join(t.TempDir(), "out")
	var stdout, stderr strings.Builder
	code := New(console.Console{Out: &stdout, Err: &stderr}, nil).Run(t.Context(), []string{"import", "great-sidecar-debate", dir, "--out", out})
	if code != console.Incomplete || !strings.Contains(stderr.String(), "60-3-metrics.csv:") {
		t.Errorf("exit code %d\n%s", code, stderr.String())
	}
	r := reportOf(t, out)
	if r.Count.Failed != 1 || r.Count.Used != 4 {
		t.Errorf("%+v", r.Count)
	}
	for args, want := range map[string]int{"great-sidecar-debate " + dir + "/nowhere": console.BadUsage, "nothing " + dir: console.BadUsage, "fortio " + dir: console.Failed} {
		stderr.Reset()
		none := filepath.Join(t.TempDir(), "x")
		code := New(console.Console{Out: &stdout, Err: &stderr}, nil).Run(t.Context(), append(append([]string{"import"}, strings.Fields(args)...), "--out", none))
		if code != want {
			t.Errorf("import %s: exit code %d, expected %d\n%s", args, code, want, stderr.String())
		}
		if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("import %s leaves a directory: %v", args, err)
		}
	}
}

// Files of another generator are named with the command that reads them.
func TestImportOfAnotherGenerator(t *testing.T) {
	dir := t.TempDir()
	must.File(t, dir, "a.json", fortioRun(0, 0.002))
	must.File(t, dir, "b.json", fortioRun(2, 0.002))
	var stderr strings.Builder
	code := New(console.Console{Out: io.Discard, Err: &stderr}, nil).Run(t.Context(), []string{"import", "oha", dir, "--out", filepath.Join(dir, "out")})
	must.Contain(t, stderr.String(), "no output of oha: ", "a.json: it is an output of fortio, not of oha", "hint: tare import fortio")
	if code != console.BadUsage {
		t.Errorf("exit code %d", code)
	}
}

// The first lines and the table of an import of Go benchmarks have each benchmark: one takes half as long again.
func TestImportOfGoBenchmarks(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, encode int) string {
		text := ""
		for i := range 5 {
			text += fmt.Sprintf("pkg: a.test/x\nBenchmarkEncode-2 500 %d ns/op\nBenchmarkDecode-2 500 %d ns/op\nPASS\n", encode+i, 2000+encode*i%5)
		}
		return must.File(t, dir, name, text)
	}
	text := strings.Join(strings.Fields(must.Get(output(t, "import", "gobench", "--report", "--out", filepath.Join(dir, "run"), file("old.txt", 1002), file("new.txt", 1503)))(t)), " ")
	if !strings.HasPrefix(text, "new takes more time for Encode-2 than old: +49.9 %") {
		t.Error(text)
	}
	for _, want := range []string{"1500 ns instead of 1000 ns", "No difference in time for Decode-2 is shown between new and old", "time, Encode-2 +501.0 ns"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// An import is a results directory without an experiment.
func TestAnImportCannotBeRun(t *testing.T) {
	out := imported(t, "great-sidecar-debate", debatetest.Sequence{Mesh: "linkerd", Rates: []int{60}}.Write(t, t.TempDir()))
	var stdout, stderr strings.Builder
	if code := New(console.Console{Out: &stdout, Err: &stderr}, nil).Run(t.Context(), []string{"plan", filepath.Join(out, result.ExperimentFile)}); code != console.BadUsage || !strings.Contains(stderr.String(), "import") {
		t.Errorf("exit code %d\n%s", code, stderr.String())
	}
	for _, name := range []string{"origins.json", "originals.tar"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestMethodsThatDoNotFit(t *testing.T) {
	out := imported(t, "great-sidecar-debate", debatetest.Sequence{Mesh: "linkerd", Rates: []int{60}}.Write(t, t.TempDir()))
	for _, c := range []struct {
		dir     string
		flags   []string
		message string
	}{
		{out, []string{"--method", "paired"}, "not interleaved"},
		{out, []string{"--method", "guess"}, "unknown method"},
		{out, []string{"--baseline", "mesh=consul"}, "mesh=consul"},
		{out, []string{"--baseline", "mesh"}, "factor=level"},
		{results(t), []string{"--method", "as-published"}, "imported"},
	} {
		must.Fail(t, must.Err(call(t, newReportCommand, append([]string{c.dir}, c.flags...)...)), c.message, c.flags)
	}
}

// `tare import --report` prints the same text as `tare report` of that directory.
func TestImportReports(t *testing.T) {
	root := t.TempDir()
	for i, mesh := range []string{"linkerd", "ambient"} {
		debatetest.Sequence{Mesh: mesh, Rates: []int{60, 120, 240}, Seed: uint64(i)}.Write(t, root)
	}
	broken := debatetest.Sequence{Mesh: "istio", Rates: []int{60}, Change: func(name string, b []byte) []byte {
		if name == "60-2-metrics.csv" {
			return b[:len(b)/2]
		}
		return b
	}}.Write(t, root)
	for _, c := range []struct {
		name  string
		paths []string
		code  int
	}{
		{"two meshes", []string{filepath.Join(root, "linkerd"), filepath.Join(root, "ambient")}, console.Done},
		{"a run that cannot be read", []string{broken}, console.Incomplete},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			var stdout, stderr strings.Builder
			if code := New(console.Console{Out: &stdout, Err: &stderr}, nil).Run(t.Context(), append([]string{"import", "great-sidecar-debate", "--report", "--out", out}, c.paths...)); code != c.code {
				t.Errorf("exit code %d, expected %d\n%s", code, c.code, stderr.String())
			}
			must.Contain(t, stderr.String(), out)
			want := must.Get(call(t, newReportCommand, out))(t)
			if _, err := os.Stat(filepath.Join(out, pageFile)); err != nil || !strings.Contains(stderr.String(), pageFile) {
				t.Errorf("no page: %v\n%s", err, stderr.String())
			}
			if stdout.String() != want {
				t.Errorf("it printed\n%s\nand tare report prints\n%s", stdout.String(), want)
			}
		})
	}
}

// Import and report of 200 files, the size of the debate's two sequences: as one
// command and as two.
func BenchmarkImportReport(b *testing.B) {
	root := b.TempDir()
	for i, mesh := range []string{"linkerd", "ambient"} {
		debatetest.Sequence{Mesh: mesh, Rates: []int{60, 120, 240, 600, 1200}, Seed: uint64(i)}.Write(b, root)
	}
	for _, way := range []struct {
		name   string
		report bool
	}{{"one command", true}, {"two commands", false}} {
		b.Run(way.name, func(b *testing.B) {
			dir := b.TempDir()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				out := filepath.Join(dir, fmt.Sprint("out", i))
				commands := [][]string{{"import", "great-sidecar-debate", filepath.Join(root, "linkerd"), filepath.Join(root, "ambient"), "--out", out}}
				if way.report {
					commands[0] = append(commands[0], "--report")
				} else {
					commands = append(commands, []string{"report", out})
				}
				for _, args := range commands {
					var stdout, stderr strings.Builder
					if code := New(console.Console{Out: &stdout, Err: &stderr}, nil).Run(b.Context(), args); code != console.Done {
						b.Fatal(stderr.String())
					}
				}
			}
		})
	}
}
