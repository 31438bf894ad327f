package metric_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

func TestEveryMetricHasARow(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range metric.All() {
		if seen[m.Name] {
			t.Errorf("%s is in the table twice", m.Name)
		}
		seen[m.Name] = true
		if got, ok := metric.Lookup(m.Name); !ok || got != m {
			t.Errorf("Lookup(%s) is %v, %v", m.Name, got, ok)
		}
		if m.Doc == "" || m.Source == "" || strings.Contains(m.Title(), "_") {
			t.Errorf("%s lacks a sentence, a source or a title", m.Name)
		}
	}
	for _, name := range metric.Headlines() {
		if m, ok := metric.Lookup(name); !ok || !m.Headline {
			t.Errorf("%s is among the headlines and its row is not", name)
		}
	}
	for _, base := range metric.Sampled() {
		if _, ok := metric.LookupBase(base); !ok {
			t.Errorf("%s has no row", base)
		}
	}
	for _, name := range []string{metric.RequestP50, metric.RequestP50 + "/"} {
		if _, ok := metric.Lookup(name); ok {
			t.Errorf("%q is a metric without a route", name)
		}
	}
	if _, ok := metric.Lookup(metric.CPUPerRequest); ok {
		t.Error("the base of a metric with parts is no metric")
	}
}

// Lists of metrics follow from the table.
func TestLists(t *testing.T) {
	for _, c := range []struct{ got, want []string }{
		{metric.From(metric.LatencyLog), []string{"latency_growth_ms_per_hour", "latency_ms", "service_ms", "lateness_us", "longest_outage_s", "recovery_s"}},
		{metric.ResponseTimes(), []string{"latency_ms", "service_ms", "first_byte_ms", "first_message_ms", "message_gap_ms", "request_p50_ms", "request_p90_ms", "request_p99_ms"}},
		{metric.CPU(), []string{"cpu_us_per_request", "cpu_cores", "cpu_cores_per_1000_rps", "cpu_growth_us_per_hour", "mesh_ratio/cpu", "data_plane_ratio/cpu"}},
		{metric.Sampled(), []string{"cpu_us_per_request", "cpu_cores", "cpu_cores_per_1000_rps", "memory_mib", "mesh_ratio", "data_plane_ratio", "node_cpu_cores"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// Metrics of routes exist by the routes that records have.
func TestKnown(t *testing.T) {
	one := map[string]float64{"request_p99_ms/b": 1, "rate": 1, "unknown": 1, "cpu_us_per_request/data": 1}
	other := map[string]float64{"request_p99_ms/a/x": 1, "rate": 1, "request_p50_ms/b": 1}
	var names []string
	for _, m := range metric.Known(one, other) {
		names = append(names, m.Name)
		if got, ok := metric.Lookup(m.Name); !ok {
			t.Errorf("Lookup(%s) is %v, %v", m.Name, got, ok)
		} else if d := difftest.Wrong("got != m", got != m, `m.Doc == ""`, m.Doc == "", `m.Unit == ""`, m.Unit == ""); d != "" {
			t.Errorf("%s: Lookup(%s) is %v, %v", d, m.Name, got, ok)
		}
	}
	if want := []string{"cpu_us_per_request/data", "request_p50_ms/b", "request_p99_ms/a/x", "request_p99_ms/b", "rate"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

func TestWords(t *testing.T) {
	for name, want := range map[string][3]string{
		metric.CPUPerRequest + "/data": {"CPU/request, data plane", "CPU/request", "data plane, µs"},
		metric.Memory + "/app":         {"memory, application", "application", "memory, MiB"},
		metric.Latency + "/p99.9":      {"response time, p99.9", "response time", "p99.9, ms"},
		metric.ErrorRatio:              {"errors", "errors", "%"},
	} {
		m, _ := metric.Lookup(name)
		heads, _ := m.Heads()
		if got := [3]string{m.Title(), heads[0], heads[1]}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	m, _ := metric.Lookup(metric.ErrorRatio)
	if unit, scale := m.Display(); unit != "%" || scale != 100 {
		t.Errorf("errors are shown in %q, times %v", unit, scale)
	}
}

// Scripts of the page take names of metrics from its content.
func TestScriptsHaveNoNames(t *testing.T) {
	scripts, err := filepath.Glob("../show/page/assets/*.js")
	if err != nil || len(scripts) < 5 {
		t.Fatalf("%q, %v", scripts, err)
	}
	for _, path := range scripts {
		text := must.Get(os.ReadFile(path))(t)
		for _, r := range metric.Rows() {
			name := r.Name
			if !strings.Contains(name, "_") { // a word, such as rate: only as a key of metrics
				name = "metrics." + name
			}
			if strings.Contains(string(text), name) {
				t.Errorf("%s contains %s", path, name)
			}
		}
	}
}

// elsewhere are names of metrics that name something else too, such as fields of other formats.
var elsewhere = map[string]bool{metric.ErrorRatio: true, metric.ServiceTime: true, metric.Lateness: true}

// A metric's name is written in its row and in tests. Everything else uses the constant, so that a metric can be
// renamed or found in one place. One that is a word, such as rate, may be a word elsewhere.
func TestNamesAreWrittenInTheTableOnly(t *testing.T) {
	var names []string
	for _, r := range metric.Rows() {
		if strings.Contains(r.Name, "_") && !elsewhere[r.Name] {
			names = append(names, r.Name)
		}
	}
	files := token.NewFileSet()
	checked := 0
	for _, root := range []string{"../../internal", "../../cmd", "../../test", "../../tools"} {
		must.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "testdata":
				return filepath.SkipDir
			case strings.HasSuffix(path, "loadpage/formats.go"): // fields of oha's JSON
				return nil
			case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			checked++
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Field:
					n.Tag = nil // of JSON
				case *ast.BasicLit:
					s, err := strconv.Unquote(n.Value)
					if n.Kind == token.STRING && err == nil && slices.ContainsFunc(names, func(name string) bool { return s == name || strings.Contains(s, name+"/") }) && !strings.HasSuffix(path, "metric/table.go") {
						t.Errorf("%s: %s: use the constant of package metric", files.Position(n.Pos()), n.Value)
					}
				}
				return true
			})
			return nil
		}))
	}
	if checked < 100 {
		t.Errorf("%d files checked, which is not the program", checked)
	}
}
