package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer/analysis"
	"github.com/tare-mesh/tare/internal/base/programtest"
)

// pythonReaders are the other side's own programs for CSV and OpenMetrics.
var pythonReaders = []string{"duckdb==2.0.0", "prometheus_client==0.26.0"}

// python is an interpreter with the readers, installed into the user's cache by
// the first test that needs it.
func python(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "tare", "readers", strings.NewReplacer("==", "-", " ", "_").Replace(strings.Join(pythonReaders, " ")))
	program, done := filepath.Join(dir, "bin", "python3"), filepath.Join(dir, "installed")
	if _, err := os.Stat(done); err == nil {
		return program
	}
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", dir},
		append([]string{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check"}, pythonReaders...),
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("install readers: %v: %v\n%s", args, err, out)
		}
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return program
}

// script runs a Python program on a report in a format, and decodes its output.
func script(t *testing.T, format, program string, into any) *analysis.Report {
	t.Helper()
	if testing.Short() {
		t.Skip("installs readers in Python")
	}
	r, b := written(t, format)
	file := filepath.Join(t.TempDir(), "x."+format)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), python(t), "-c", "import json,sys\nfile=sys.argv[1]\n"+program, file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// DuckDB reads every metric of every trial from the CSV, and writes it as Parquet.
func TestOthersReadCSV(t *testing.T) {
	var got struct {
		Rows []struct {
			Trial, Metric, Mesh string
			Value               float64
		}
		Means map[string]float64
	}
	r := script(t, "csv", `
import duckdb
parquet = file + ".parquet"
duckdb.execute("copy (from read_csv('%s')) to '%s'" % (file, parquet))
rows = duckdb.execute("select trial, metric, factor_mesh, value from read_parquet(?)", [parquet]).fetchall()
means = duckdb.execute("select treatment, avg(value) from read_parquet(?) where metric = 'cpu_us_per_request/total' group by treatment", [parquet]).fetchall()
print(json.dumps({"rows": [dict(zip(("trial", "metric", "mesh", "value"), row)) for row in rows], "means": dict(means)}))`, &got)
	want := known(r)
	for _, row := range got.Rows {
		key := [2]string{row.Trial, row.Metric}
		if v, ok := want[key]; !ok || v != row.Value || row.Mesh == "" {
			t.Fatalf("DuckDB reads %+v, want %v", row, v)
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("DuckDB does not find %d figures", len(want))
	}
	for _, tr := range r.Treatments {
		if e := tr.Metrics["cpu_us_per_request/total"].Estimate; math.Abs(got.Means[tr.ID]-e) > 1e-9*e {
			t.Errorf("DuckDB finds a mean of %v for %s, want %v", got.Means[tr.ID], tr.ID, e)
		}
	}
}

// Prometheus's own strict parser reads the OpenMetrics text and finds the estimates.
func TestOthersReadOpenMetrics(t *testing.T) {
	var got []struct {
		Name   string
		Labels map[string]string
		Value  float64
	}
	r := script(t, "openmetrics", `
from prometheus_client.openmetrics.parser import text_string_to_metric_families
print(json.dumps([{"name": s.name, "labels": s.labels, "value": s.value}
  for f in text_string_to_metric_families(open(file).read()) for s in f.samples]))`, &got)
	for _, tr := range r.Treatments {
		found := false
		for _, s := range got {
			found = found || s.Name == "tare_latency_ms" && s.Value == tr.Metrics["latency_ms/p99"].Estimate
		}
		if !found {
			t.Errorf("no p99 of %s among %d samples", tr.ID, len(got))
		}
	}
}

// Fortio's own package reads every file into its own types, unknown fields
// refused, and its report shows them all.
func TestFortioReads(t *testing.T) {
	if testing.Short() {
		t.Skip("builds fortio's report")
	}
	program := filepath.Join(t.TempDir(), "fortioreport")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../../../tools/fortioreport", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d, dir := exported(t, "fortio")
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	out, err := exec.CommandContext(t.Context(), program, append([]string{"read"}, files...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	records, err := d.Records()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		found := false
		for line := range strings.Lines(string(out)) {
			cells := strings.Split(strings.TrimSpace(line), "\t")
			if !strings.HasSuffix(cells[0], "_"+r.ID+".json") {
				continue
			}
			found = true
			rate, _ := strconv.ParseFloat(cells[3], 64)
			p50, _ := strconv.ParseFloat(cells[4], 64)
			h, err := analysis.TrialHistograms(d, &r)
			if err != nil {
				t.Fatal(err)
			}
			want := float64(h.Response.ValueAtPercentile(50)) / 1e9
			if cells[1] != fmt.Sprint(r.Load.Completed) || math.Abs(rate-float64(r.Load.Completed)/r.Load.MeasureSeconds) > 0.01 || math.Abs(p50/want-1) > 0.1 {
				t.Errorf("fortio reads %v of %s: want %d requests in %v s, p50 %v s", cells, r.ID, r.Load.Completed, r.Load.MeasureSeconds, want)
			}
		}
		if !found {
			t.Errorf("fortio reads nothing of %s", r.ID)
		}
	}
	served(t, program, dir, files)
}

// served starts the report and checks that it serves every file.
func served(t *testing.T, program, dir string, files []string) {
	t.Helper()
	port, err := programtest.Port("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, program, "serve", address, dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	defer func() { cancel(); <-ended }()
	// It listens before it has read its directory: a page requested too early is empty.
	page := ""
	listed := func(file string) bool {
		return strings.Contains(page, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline) && !listed(files[0]); {
		if resp, err := http.Get("http://" + address + "/"); err == nil {
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			page = string(b)
		}
		select {
		case <-ended:
			t.Fatalf("fortio ended: %v", cmd.ProcessState)
		case <-time.After(20 * time.Millisecond):
		}
	}
	for _, f := range files {
		if !listed(f) {
			t.Errorf("the report does not list %s", filepath.Base(f))
		}
		resp, err := http.Get("http://" + address + "/data/" + filepath.Base(f))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if on, err := os.ReadFile(f); err != nil || string(on) != string(b) {
			t.Errorf("the report serves %d bytes of %s", len(b), f)
		}
	}
}
