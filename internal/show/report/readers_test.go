package report

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// script runs a Python program on a report in a format, and decodes its output.
func script(t *testing.T, format, program string, into any) *answer.Report {
	t.Helper()
	if testing.Short() {
		t.Skip("installs readers in Python")
	}
	r, b := written(t, format)
	file := filepath.Join(t.TempDir(), "x."+format)
	must.OK(t, os.WriteFile(file, b, 0o600))
	out, err := exec.CommandContext(t.Context(), programtest.Python(t, "python3", "duckdb==2.0.0"), "-c", "import json,sys\nfile=sys.argv[1]\n"+program, file).CombinedOutput()
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
