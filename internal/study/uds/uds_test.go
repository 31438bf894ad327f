package uds

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

const head = "Timestamp, Namespace, Total CPU(mCPU), Total Memory(MiB)\n"

// runOf is a run of uds-core's test at 20 requests/s: five minutes in steps of five seconds.
func runOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(head)
	for i := range 60 {
		stamp := time.Date(2025, 3, 27, 17, 0, 0, 0, time.UTC).Add(5e9 * time.Duration(i)).Format(importer.TimeLayout)
		b.WriteString(stamp + ",istio-tenant-gateway,7,48\n" + stamp + ",nginx,9,55\n" + stamp + ",istio-system,1,84\n")
	}
	run := filepath.Join(dir, "sidecar", "20_1")
	must.OK(t, os.MkdirAll(run, 0o755))
	for name, text := range map[string]string{usageLog: b.String(), "vegeta-report.txt": vegetaReport, "namespace-metrics-summary.txt": "x"} {
		must.OK(t, os.WriteFile(filepath.Join(run, name), []byte(text), 0o644))
	}
	return run
}

const vegetaReport = `Requests      [total, rate, throughput]         6000, 20.00, 20.00
Duration      [total, attack, wait]             5m0s, 5m0s, 1.217ms
Latencies     [min, mean, 50, 90, 95, 99, max]  588.001µs, 1.036ms, 996.513µs, 1.325ms, 1.47ms, 1.822ms, 21ms
Bytes In      [total, mean]                     3690000, 615.00
Bytes Out     [total, mean]                     0, 0.00
Success       [ratio]                           100.00%
Status Codes  [code:count]                      200:6000
Error Set:
`

func TestRun(t *testing.T) {
	s := must.Get(read([]string{filepath.Dir(runOf(t, t.TempDir()))}, importer.Options{}))(t)
	tr := &s.Trials[0]
	r := &tr.Record
	if !r.Valid {
		t.Fatalf("%+v", tr)
	} else if d := difftest.Of("r.Error", r.Error, "", "tr.Mesh", tr.Mesh, "sidecar", "tr.Rate", tr.Rate, 20, "tr.Replicas", tr.Replicas, 1); d != "" {
		t.Fatalf("%s: %+v", d, tr)
	}
	if len(r.Sampled.Rows) != 60 || len(r.Sampled.Tasks) != 3 {
		t.Fatalf("%d rows of %d namespaces", len(r.Sampled.Rows), len(r.Sampled.Tasks))
	}
	for i, want := range []struct {
		cores, mem float64
		plane      metric.Plane
	}{{0.007, 48 << 20, metric.Data}, {0.009, 55 << 20, metric.Unattributed}, {0.001, 84 << 20, metric.Control}} {
		row := r.Sampled.Expanded()[10]
		if math.Abs(*row.Cores[i]-want.cores) > 1e-12 || *row.Memory[i] != want.mem || r.Sampled.Tasks[i].Plane != want.plane {
			t.Errorf("namespace %d: %v cores, %v bytes, %s", i, *row.Cores[i], *row.Memory[i], r.Sampled.Tasks[i].Plane)
		}
	}
	l := r.Load
	if l == nil || len(l.Published) != 1 {
		t.Errorf("load %+v", l)
	} else if d := difftest.Of("l.Completed", l.Completed, 6000, `l.Classes["2xx"]`, l.Classes["2xx"], 6000, "l.MeasureSeconds", l.MeasureSeconds, 300, "l.Published[0].Of", l.Published[0].Of, "service"); d != "" {
		t.Errorf("%s: load %+v", d, l)
	}
}

func TestDamagedLogs(t *testing.T) {
	row := "2025-01-02 03:04:05,nginx,9,55\n"
	for _, c := range []struct{ name, text, message string }{
		{"empty", "", "cut off"},
		{"cut off", head + row + row[:len(row)-2], "cut off"},
		{"no row", head, "no row"},
		{"another file", "a,b\n" + row, ":1: "},
		{"doubled", head + row + row, ":3: "},
		{"reordered", head + row + strings.Replace(row, "05,", "04,", 1), ":3: "},
		{"NaN", head + strings.Replace(row, ",9,", ",nan,", 1), ":2: "},
		{"negative", head + strings.Replace(row, ",9,", ",-9,", 1), ":2: "},
		{"too few fields", head + "2025-01-02 03:04:05,nginx,9\n", ":2: "},
		{"no namespace", head + strings.Replace(row, "nginx", "", 1), ":2: "},
		{"a unit that is not CPU's", head + strings.Replace(row, ",9,", ",9Mi,", 1), ":2: "},
	} {
		must.Fail(t, must.Err(parse("resource-usage.log", []byte(c.text))), c.message, c.name)
	}
	s, err := parse("x", []byte(head+"2025-01-02 03:04:05,nginx,9m,12m,55Mi,20Mi\n"))
	if err != nil || math.Abs(*s.Rows[0].Cores[0]-0.009) > 1e-12 || *s.Rows[0].Memory[0] != 55<<20 {
		t.Errorf("six fields: %v", err)
	}
}
