package debate

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/importer"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// exported writes the study in the debate's layout.
func exported(t *testing.T) (*result.Dir, string) {
	t.Helper()
	d := answertest.TwoRates().Write(t, filepath.Join(t.TempDir(), "run"))
	r := must.Get(answer.Analyze(d, compare.Options{}))(t)
	dir := t.TempDir()
	must.OK(t, export(dir, answer.Analysis{Dir: d, Report: r}))
	return d, dir
}

// The debate's script needs these names, this header, these units, and these
// lines of a log.
func TestExportedFiles(t *testing.T) {
	d, dir := exported(t)
	name := regexp.MustCompile(`^(\d+)-(\d+)-(metrics\.csv|wrk2(-[a-z0-9]{5})\.log)$`)
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	if len(files) != 2*len(d.Plan().Trials) {
		t.Fatalf("%d files of %d trials: %v", len(files), len(d.Plan().Trials), files)
	}
	for _, f := range files {
		if !name.MatchString(filepath.Base(f)) {
			t.Errorf("the script would refuse %s", f)
		}
	}
	records, _ := d.Records()
	for _, r := range records {
		if r.Treatment != "envoy-rate1000" || r.Block != 2 {
			continue
		}
		b := must.Get(os.ReadFile(filepath.Join(dir, "envoy", "1000-2-metrics.csv")))(t)
		rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
		if err != nil || !bytes.Contains(b, []byte("\r\n")) {
			t.Fatal(err)
		}
		cores := 0.0
		for _, task := range r.Tasks {
			if task.Plane == metric.Data {
				cores += float64(task.End.CPU-task.Start.CPU) / float64(task.End.At.Sub(task.Start.At))
			}
		}
		for i, head := range rows[0] {
			if head == "data-plane CPU" && rows[1][i] != strconv.FormatInt(int64(math.Round(cores*1e9)), 10) {
				t.Errorf("%s nanocores of %v cores", rows[1][i], cores)
			}
		}
	}
	for _, want := range []string{"unmeshed-control", "unmeshed", "envoy"} {
		if _, err := os.Stat(filepath.Join(dir, want)); err != nil {
			t.Error(err)
		}
	}
	log := must.Get(os.ReadFile(filepath.Join(dir, "envoy", "1000-2-wrk2-tare0.log")))(t)
	for _, want := range []string{`Detailed Percentile spectrum`, `\n\s+\d+\.\d+\s+0\.5\d*\s+\d+`, `\n#\[Mean`, `\nRequests/sec:\s+\d+\.\d+\n`} {
		if !regexp.MustCompile(want).Match(log) {
			t.Errorf("the log has no %s:\n%s", want, log)
		}
	}
}

func TestNamesCannotLeaveTheDirectory(t *testing.T) {
	d := answertest.TwoRates().Write(t, filepath.Join(t.TempDir(), "run"))
	r := must.Get(answer.Analyze(d, compare.Options{}))(t)
	if got := meshDir(r, &result.Record{Factors: plan.Factors{"mesh": "../../etc/x"}}); strings.Contains(got, "/") {
		t.Errorf("%q", got)
	}
}

// An import reads what the export writes: nodes with more than their pods, and requests that were
// due in the measure phase but answered after it.
func TestImportOfTheExport(t *testing.T) {
	s := answertest.TwoRates()
	s.RateFactor, s.Measure = true, 5
	s.Change = func(r *result.Record) {
		l := r.Load
		l.Completed -= 2
		l.Intended += 6
		l.Classes = map[string]int64{"2xx": l.Classes["2xx"], "status": 1, "timeout": 5}
		start, end := result.NodeReading{At: l.Start, Memory: 8 << 30}, result.NodeReading{At: l.End, Busy: int64(1.9 * float64(l.End.Sub(l.Start))), Memory: 8 << 30}
		r.Node = &result.NodeUsage{Nodes: []result.MachineUsage{{Name: "n1", AllocatableCPU: 2, AllocatableMemory: 9 << 30, Start: start, End: end}}}
	}
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	r := must.Get(answer.Analyze(d, compare.Options{}))(t)
	dir := t.TempDir()
	must.OK(t, export(dir, answer.Analysis{Dir: d, Report: r}))
	study, err := read([]string{dir}, importer.Options{Warmup: -1, Tail: -1})
	if err != nil || len(study.Trials) != len(d.Plan().Trials) {
		t.Fatalf("%d trials of %d, %v", len(study.Trials), len(d.Plan().Trials), err)
	}
	for i := range study.Trials {
		tr := &study.Trials[i]
		switch l := tr.Record.Load; {
		case tr.Record.Error != "":
			t.Error(tr.Record.Error)
		case !tr.Record.Valid:
			t.Errorf("%s: %+v", tr.Run, tr.Record.Warnings)
		case l.Classes["status"] != 1 || l.Classes["timeout"] != 5 || l.Completed != l.Classes["2xx"]+1 || l.Recorded != l.Classes["2xx"]:
			t.Errorf("%s: %d answered, %v, %d with latencies", tr.Run, l.Completed, l.Classes, l.Recorded)
		}
	}
}

// The report of an import has the figures of the run. The export has the measure phase alone, and no columns of a mesh's
// pods: it is imported without flags, under a mesh that the debate knows.
func TestRoundTrip(t *testing.T) {
	s := answertest.TwoRates()
	s.RateFactor, s.Measure = true, 20
	for i := range s.Treatments {
		if of := &s.Treatments[i]; of.Factors["mesh"] == "envoy" {
			of.Factors["mesh"] = "istio"
		}
	}
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	before := must.Get(answer.Analyze(d, compare.Options{}))(t)
	dir, again := t.TempDir(), filepath.Join(t.TempDir(), "imported")
	must.OK(t, export(dir, answer.Analysis{Dir: d, Report: before}))
	study := must.Get(read([]string{dir}, importer.Options{}))(t)
	must.OK(t, importer.Write(again, study, result.Environment{}))
	after := must.Get(answer.Analyze(must.Get(result.Open(again))(t), compare.Options{}))(t)
	if len(after.Trials) != len(before.Trials) {
		t.Fatalf("%d of %d trials", len(after.Trials), len(before.Trials))
	}
	key := func(tr figures.Trial, run *answer.Report) string {
		return fmt.Sprintf("%s at %v, %d", strings.Replace(report.Level(tr.Factors["mesh"]), "none", "unmeshed", 1), tr.Factors["rate"], tr.Block)
	}
	imported := map[string]figures.Trial{}
	for _, tr := range after.Trials {
		imported[key(tr, after)] = tr
		if !tr.Valid {
			t.Errorf("%s: %+v", tr.ID, tr.Warnings)
		}
	}
	for _, tr := range before.Trials {
		if tr.Control {
			continue
		}
		got, ok := imported[key(tr, before)]
		if !ok {
			t.Errorf("%s is not imported", key(tr, before))
		}
		for _, name := range []string{metric.Of(metric.CPUPerRequest, "total"), metric.Of(metric.CPUPerRequest, "data"), metric.Of(metric.CPUPerRequest, "app"), metric.Of(metric.Latency, "p50"), metric.Rate} {
			near := map[bool]float64{false: 0.01, true: 0.05}[strings.HasPrefix(name, metric.Latency)] // a spectrum has steps
			if want := tr.Metrics[name]; math.Abs(got.Metrics[name]-want) > near*want+1e-9 {
				t.Errorf("%s: %s is %v, want %v", key(tr, before), name, got.Metrics[name], want)
			}
		}
	}
}
