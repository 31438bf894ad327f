package report

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/answer/analysis/analysistest"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/generator"
)

// written is the two-rates study in one format.
func written(t *testing.T, format string) (*analysis.Report, []byte) {
	t.Helper()
	r := reportOf(t, analysistest.TwoRates())
	f, ok := Lookup(format, Options{})
	if !ok {
		t.Fatalf("no format %s", format)
	}
	var b bytes.Buffer
	if err := f.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return r, b.Bytes()
}

// known are the metrics of every trial by trial and name.
func known(r *analysis.Report) map[[2]string]float64 {
	all := map[[2]string]float64{}
	for _, t := range r.Trials {
		for name, v := range t.Metrics {
			all[[2]string{t.ID, name}] = v
		}
	}
	return all
}

func TestCSVHoldsEveryMetricOfEveryTrial(t *testing.T) {
	r, b := written(t, "csv")
	rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	want := known(r)
	for _, row := range rows[1:] {
		key := [2]string{row[column["trial"]], row[column["metric"]]}
		v, err := strconv.ParseFloat(row[column["value"]], 64)
		if w, ok := want[key]; err != nil || !ok || v != w {
			t.Fatalf("%v: %v, want %v (%v)", key, v, w, err)
		}
		m, _ := metric.Lookup(key[1])
		if row[column["unit"]] != m.Unit || row[column["factor_rate"]] == "" || row[column["factor_connections"]] != "16" {
			t.Fatalf("row %v", row)
		}
		delete(want, key)
	}
	if len(want) != 0 {
		t.Errorf("%d figures are missing", len(want))
	}
}

// benchstat itself reads it, and computes the same means.
func TestBenchstatReadsBenchfmt(t *testing.T) {
	if testing.Short() {
		t.Skip("builds benchstat")
	}
	r, b := written(t, "benchfmt")
	file := filepath.Join(t.TempDir(), "bench.txt")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "tool", "-modfile=../../../tools/go.mod", "benchstat", "-format", "csv", "-filter", ".unit:cpu_us_per_request/total", "-row", ".name,/rate,/control", "-col", "/mesh", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tr := range r.Treatments {
		if tr.Control {
			continue
		}
		var values []float64
		for _, x := range r.Trials {
			if x.Treatment == tr.ID {
				values = append(values, x.Metrics["cpu_us_per_request/total"])
			}
		}
		if median := medianOf(values); !holds(string(out), median) {
			t.Errorf("benchstat has no %v of %s:\n%s", median, tr.ID, out)
		}
	}
	if bytes.Contains(out, []byte("warning")) {
		t.Errorf("%s", out)
	}
}

func medianOf(v []float64) float64 {
	v = append([]float64{}, v...)
	for i := range v {
		for j := i; j > 0 && v[j] < v[j-1]; j-- {
			v[j], v[j-1] = v[j-1], v[j]
		}
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// holds reports whether a number in text is v, to six digits.
func holds(text string, v float64) bool {
	for _, s := range regexp.MustCompile(`[0-9.]+(e[-+][0-9]+)?`).FindAllString(text, -1) {
		if f, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(f-v) <= 1e-5*math.Abs(v) {
			return true
		}
	}
	return false
}

func TestBenchNamesCannotBreakTheFormat(t *testing.T) {
	if got := benchToken("a b/c=d-8\n"); got != "a_b_c_d_8_" {
		t.Errorf("%q", got)
	}
}

// The format by its rules: families stand together, every name and label is well formed, EOF ends it.
func TestOpenMetrics(t *testing.T) {
	r, b := written(t, "openmetrics")
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if lines[len(lines)-1] != "# EOF" {
		t.Errorf("ends with %q", lines[len(lines)-1])
	}
	line := regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)\{([a-zA-Z_][a-zA-Z0-9_]*="(\\.|[^"\\])*",?)+\} -?[0-9.e+-]+$`)
	seen, current := map[string]bool{}, ""
	samples := map[string]bool{}
	for i, l := range lines[:len(lines)-1] {
		if name, ok := strings.CutPrefix(l, "# TYPE "); ok {
			name, _, _ = strings.Cut(name, " ")
			if seen[name] {
				t.Errorf("%d: family %s occurs twice", i+1, name)
			}
			seen[name], current = true, name
			continue
		}
		if strings.HasPrefix(l, "# HELP ") {
			continue
		}
		m := line.FindStringSubmatch(l)
		key, _, _ := strings.Cut(l, "} ")
		if m == nil || m[1] != current || samples[key] {
			t.Fatalf("%d: %s", i+1, l)
		}
		samples[key] = true
	}
	if !seen["tare_latency_ms"] || !seen["tare_cpu_us_per_request_difference"] || len(samples) < 10*len(r.Treatments) {
		t.Errorf("%d samples of %d families", len(samples), len(seen))
	}
	if got := omLabels([]string{"a", "x\"\\\n\xff"}); got != `{a="x\"\\\n`+"�"+`"}` {
		t.Errorf("%s", got)
	}
}

func TestMarkdownGolden(t *testing.T) {
	_, b := written(t, "markdown")
	golden(t, "two-rates.md", b)
	r := reportOf(t, troubled())
	var out bytes.Buffer
	if err := writeMarkdown(&out, r, Options{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "troubled.md", out.Bytes())
	for i, l := range strings.Split(out.String(), "\n") {
		if strings.HasPrefix(l, "|") && strings.Count(strings.ReplaceAll(l, `\|`, ""), "|") < 3 {
			t.Errorf("line %d is no row: %s", i+1, l)
		}
	}
}

func exported(t *testing.T, format string) (*result.Dir, string) {
	t.Helper()
	d := analysistest.TwoRates().Write(t, filepath.Join(t.TempDir(), "run"))
	r, err := analysis.Analyze(d, analysis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := Lookup(format, Options{})
	out := t.TempDir()
	if err := f.Export(out, d, r); err != nil {
		t.Fatal(err)
	}
	return d, out
}

// What reads fortio's own files reads these, and finds the same counts and quantiles.
func TestFortioFiles(t *testing.T) {
	d, dir := exported(t, "fortio")
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	records, err := d.Records()
	if err != nil || len(files) != len(records) {
		t.Fatalf("%d files of %d trials, %v", len(files), len(records), err)
	}
	for _, r := range records {
		name, _ := filepath.Glob(filepath.Join(dir, "*_"+r.ID+".json"))
		f, err := os.Open(name[0])
		if err != nil {
			t.Fatal(err)
		}
		o, err := generator.ParseFortio(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		h, err := analysis.TrialHistograms(d, &r)
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Latencies) != 1 || o.Latencies[0].Count != h.Response.TotalCount() || o.Statuses["200"] != r.Load.Completed {
			t.Fatalf("%s: %+v", r.ID, o)
		}
		for _, q := range o.Latencies[0].Quantiles {
			if want := float64(h.Response.ValueAtPercentile(100*q.Q)) / 1e6; math.Abs(q.MS-want) > 1e-9*want {
				t.Errorf("%s: p%v is %v, want %v", r.ID, 100*q.Q, q.MS, want)
			}
		}
		total, end := int64(0), 0.0
		for _, b := range o.Latencies[0].Buckets {
			if b.LowMS < end-1e-9 || b.HighMS < b.LowMS {
				t.Errorf("%s: bucket %+v after %v", r.ID, b, end)
			}
			total, end = total+b.Count, b.HighMS
		}
		if total != h.Response.TotalCount() {
			t.Errorf("%s: %d in buckets, %d in all", r.ID, total, h.Response.TotalCount())
		}
	}
}
