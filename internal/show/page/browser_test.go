package page_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

// finding is the output of testdata/browser.mjs for one page.
type finding struct {
	File, ColorScheme     string
	Width                 int
	Errors, Requests, Axe []string
	Owned                 any
	Text                  string
	Overflow              int
	Background, Toggled   string
	Tables                map[string][][]any
	Marks                 map[string][]struct {
		Title, About                   string
		Estimates, Planes              []float64
		Intervals, Trials, Percentiles [][2]float64
		Runs, Changes, Probes          [][2]float64
		Levels, LevelIntervals         [][2]float64 // of a sweep
		Answered                       [][2]float64 // points of a timeline
		Bars                           []float64    // beginnings of expectations and faults
		Dots                           int          // slices, or cells of a heat map
	}
	Further           map[string][]int // rows of the tables after the first
	Downloads         map[string]string
	TablesOf          map[string][]string // CSV of each table of a figure
	PDF               int
	Controls, Reached int
	Ticks             []string // of an axis from 134.251 to 134.262
}

// planted is a name that is a script wherever it is not escaped.
const planted = `</script><script>owned=1</script><img src=x onerror="owned=1">`

// sweep is a study with several rates, for the figure of cost against rate.
func sweep() answertest.Study {
	s := answertest.Quickstart()
	base := s.Treatments[:3]
	s.Name, s.Blocks, s.RateFactor, s.Treatments = "sweep", 4, true, nil
	for _, rate := range []float64{100, 300, 600} {
		for _, t := range base {
			factors := plan.Factors{"rate": rate}
			for f, v := range t.Factors {
				factors[f] = v
			}
			t.Factors = factors
			suffix := fmt.Sprintf("-%.0f", rate)
			t.ID += suffix
			if t.Baseline != "" {
				t.Baseline += suffix
			}
			s.Treatments = append(s.Treatments, t)
		}
	}
	s.Seconds = true
	s.Change = func(r *result.Record) {
		p99 := 2.5
		r.Faults = []result.Fault{{Kind: "pause", Start: r.Load.Start.Add(time.Second), Healed: r.Load.Start.Add(3 * time.Second)}}
		r.Expectations = []expect.Outcome{{Expect: "p99 < 3ms", OK: true, Value: &p99, Unit: "ms", Detail: "synthetic"}, {Expect: "success_ratio >= 0.9 during fault", Detail: planted}}
	}
	return s
}

// hostile has scripts in every name that comes from files.
func hostile() answertest.Study {
	s := answertest.Quickstart()
	s.Name, s.Blocks, s.Treatments = planted, 3, s.Treatments[:3]
	s.YAML = "apiVersion: tare.dev/v1beta1\nkind: Experiment\nladder: true\nmetadata:\n  name: x\n  description: '" + planted + "'\n"
	s.Treatments[2].Factors = plan.Factors{"mesh": planted}
	return s
}

// Chromium draws every figure with the numbers of the report, in both themes, on a phone and on a
// wide screen. It reports no error, makes no request, and axe-core finds no violation.
func TestInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	t.Parallel()
	at, chromium := programtest.PagePackages(t), programtest.Chromium(t)
	dir := t.TempDir()
	runs, reports, args := map[string]*result.Dir{}, map[string]*answer.Report{}, []string{"testdata/browser.mjs", at, chromium}
	for _, s := range []struct {
		name string
		*result.Dir
	}{{"sweep", sweep().Write(t, filepath.Join(dir, "sweep"))}, {"hostile", hostile().Write(t, filepath.Join(dir, "hostile"))}, {"real", quickstart(t, filepath.Join(dir, "real"))}} {
		defer s.Close()
		file := filepath.Join(dir, s.name+".html")
		r, text := pageOf(t, s.Dir)
		must.OK(t, os.WriteFile(file, text, 0o644))
		runs[file], reports[file], args = s.Dir, r, append(args, file)
	}
	others := map[string]func(*testing.T, finding){}
	for name, of := range othersOf(t) {
		file := filepath.Join(dir, name+".html")
		must.OK(t, os.WriteFile(file, of.text, 0o644))
		others[file], args = of.check, append(args, file)
	}
	cmd := exec.Command("node", args...)
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.Output())(t)
	var all []finding
	if err := json.Unmarshal(out, &all); err != nil || len(all) != 4+len(others) {
		t.Fatalf("%d findings, %v:\n%.500s", len(all), err, out)
	}
	for _, f := range all {
		t.Run(fmt.Sprintf("%s %s %d", filepath.Base(f.File), f.ColorScheme, f.Width), func(t *testing.T) {
			harmless(t, f)
			if f.Width == 1600 && f.PDF < 10_000 {
				t.Errorf("printed: %d bytes", f.PDF)
			}
			if check := others[f.File]; check != nil {
				check(t, f)
				return
			}
			sameNumbers(t, reports[f.File], f)
			sameSeconds(t, runs[f.File], f)
			if f.Downloads != nil {
				usable(t, f)
			}
		})
	}
}

func harmless(t *testing.T, f finding) {
	for kind, found := range map[string][]string{"console": f.Errors, "request": f.Requests, "axe": f.Axe} {
		for _, s := range found {
			t.Errorf("%s: %s", kind, s)
		}
	}
	if n := len(slices.Compact(slices.Clone(f.Ticks))); n < 4 || n != len(f.Ticks) {
		t.Errorf("ticks of an axis with a small range: %q", f.Ticks)
	}
	if f.Owned != nil {
		t.Error("a planted script ran")
	}
	if strings.Contains(f.File, "hostile") && strings.Count(f.Text, planted) < 3 {
		t.Error("the planted names are not shown: the test is vacuous")
	}
	if f.Overflow > 0 {
		t.Errorf("the page is %d px wider than the window", f.Overflow)
	}
	if want := map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}[f.ColorScheme]; f.Background != want {
		t.Errorf("background %s, want %s", f.Background, want)
	}
}

// sameNumbers compares the drawn marks and the tables with the report.
func sameNumbers(t *testing.T, r *answer.Report, f finding) {
	if strings.Contains(f.File, "sweep") {
		sameCapacity(t, r, f)
	}
	if n := f.Further["figure-latency"]; len(n) != 1 || n[0] < 5 {
		t.Errorf("rows of response times over seconds: %v", n)
	}
	var estimates []float64
	var intervals [][2]float64
	for _, p := range f.Marks["figure-differences"] { // of three rates lines over them, otherwise rows
		estimates, intervals = append(estimates, p.Estimates...), append(intervals, p.Intervals...)
		for _, x := range p.Levels {
			estimates = append(estimates, x[1])
		}
		intervals = append(intervals, p.LevelIntervals...)
	}
	var want []float64
	var wantIntervals [][2]float64
	for _, name := range metric.Shown() {
		for _, c := range r.Comparisons {
			if c.Metric != name || c.Control || c.Difference == nil || c.Difference.Estimate == 0 && !c.Difference.Known() {
				continue
			}
			m, _ := metric.Lookup(name)
			_, k := m.Display()
			want = append(want, c.Difference.Estimate*k)
			if c.Difference.Known() {
				wantIntervals = append(wantIntervals, [2]float64{*c.Difference.Low * k, *c.Difference.High * k})
			}
		}
	}
	near(t, "differences", estimates, want)
	near(t, "intervals", flat(intervals), flat(wantIntervals))
	var tabled []float64
	for _, row := range f.Tables["figure-differences"] {
		if v, ok := row[4].(float64); ok {
			tabled = append(tabled, v)
		}
	}
	near(t, "table of differences", tabled, want)

	var planes, wantPlanes []float64
	for _, p := range f.Marks["figure-bill"] {
		planes = append(planes, p.Planes...)
	}
	for _, prefix := range []string{metric.CPUPerRequest, metric.Memory} {
		for _, tr := range r.Treatments {
			for _, p := range metric.TotalParts() {
				if e := tr.Metrics[metric.Of(prefix, p.Name)]; e.Estimate != 0 {
					wantPlanes = append(wantPlanes, e.Estimate)
				}
			}
		}
	}
	near(t, "planes", planes, wantPlanes)
	sameLadder(t, r, f)

	var trials, wantTrials []float64
	for _, p := range f.Marks["figure-trials"][0].Trials {
		trials = append(trials, p[0], p[1])
	}
	for _, x := range r.Trials {
		wantTrials = append(wantTrials, float64(x.Ordinal), x.Metrics[metric.Of(metric.CPUPerRequest, "total")])
	}
	near(t, "trials", trials, wantTrials)

	var percentiles, wantPercentiles []float64
	for _, p := range f.Marks["figure-latency"] {
		for _, x := range p.Percentiles {
			percentiles = append(percentiles, x[1])
		}
	}
	for _, p := range f.Tables["figure-latency"] {
		if v, ok := p[3].(float64); ok && p[1] == "response time" {
			wantPercentiles = append(wantPercentiles, v)
		}
	}
	if len(percentiles) == 0 || len(percentiles) > len(wantPercentiles) {
		t.Errorf("%d percentiles drawn of %d", len(percentiles), len(wantPercentiles))
	}
	for _, v := range percentiles {
		if !slices.ContainsFunc(wantPercentiles, func(w float64) bool { return math.Abs(v-w) < 1e-3*w }) {
			t.Errorf("percentile %v is in no row", v)
		}
	}
	known := map[float64]bool{}
	for _, tr := range r.Treatments {
		for _, part := range []string{"p50", "p90", "p99", "p99.9", "p99.99"} {
			known[tr.Metrics[metric.Of(metric.Latency, part)].Estimate] = true
		}
	}
	for _, v := range wantPercentiles {
		if !known[v] {
			t.Errorf("the table's percentile %v is not of the report", v)
		}
	}
	sameRates(t, r, f)
}

// sameRates compares the trials of the figure of cost against rate.
func sameRates(t *testing.T, r *answer.Report, f finding) {
	panels := f.Marks["figure-rate"]
	if len(r.Lines) == 0 {
		return
	}
	if len(panels) != 2 {
		t.Fatalf("%d panels of cost against rate", len(panels))
	}
	var got, want [2][]float64
	for _, p := range panels[0].Trials {
		got[0], got[1] = append(got[0], p[0]), append(got[1], p[1])
	}
	for _, x := range r.Trials {
		if x.Valid && !x.Control {
			want[0], want[1] = append(want[0], x.Metrics["rate"]), append(want[1], 1000*x.Metrics[metric.Of(metric.CPUCores, "total")])
		}
	}
	near(t, "rates", got[0], want[0])
	near(t, "CPU at rates", got[1], want[1])
	if len(panels[1].Trials) != len(want[0]) {
		t.Errorf("%d residuals, want %d", len(panels[1].Trials), len(want[0]))
	}
}

// sameSeconds compares the timeline of the trial that the page opens with, and counts slices and cells of the heat map.
func sameSeconds(t *testing.T, d *result.Dir, f finding) {
	panels, rows := f.Marks["figure-timeline"], f.Tables["figure-timeline"]
	if strings.HasSuffix(f.File, "hostile.html") { // it has no seconds
		return
	}
	if len(panels) < 3 || len(rows) == 0 {
		t.Fatalf("timeline: %d panels, %d rows", len(panels), len(rows))
	}
	trial, whole := fmt.Sprint(rows[0][0]), math.MaxInt
	records := must.Get(d.Records())(t)
	for _, r := range records {
		if r.ID == trial && r.Load != nil { // the last second is not a whole one
			whole = int(max(1, r.Load.End.Sub(r.Load.Start).Seconds()+r.Load.WarmupSeconds+0.01))
		}
	}
	var at, rates []float64
	for e, err := range d.Events(trial) {
		must.OK(t, err)
		if p := e.Progress; p != nil && p.HasLoad() && p.Second < whole {
			at, rates = append(at, float64(p.Second)+0.5), append(rates, p.WhileLoaded())
		}
	}
	var drawn [2][]float64
	for _, p := range panels[0].Answered {
		drawn[0], drawn[1] = append(drawn[0], p[0]), append(drawn[1], p[1])
	}
	near(t, "seconds of "+trial, drawn[0], at)
	near(t, "rates of "+trial, drawn[1], rates)
	if strings.HasSuffix(f.File, "sweep.html") {
		// The load begins 2 s before the measure phase. The fault is in its second and third second.
		near(t, "expectations", panels[len(panels)-1].Bars, []float64{2, 2, 3})
		if n := f.Further["figure-timeline"]; !slices.Equal(n, []int{2}) || !strings.Contains(panels[len(panels)-1].About, "p99 < 3ms: met, 2.5 ms; success_ratio >= 0.9 during fault: missed, "+planted) {
			t.Errorf("%v rows of expectations", n)
		}
	}
	for _, figure := range []string{"figure-trials", "figure-latency"} {
		n, panels := f.Further[figure], f.Marks[figure]
		if len(n) == 1 && n[0] < 1000 && panels[len(panels)-1].Dots != n[0] { // a table has up to 1000 rows
			t.Errorf("%s: %d marks of %d rows", figure, panels[len(panels)-1].Dots, n[0])
		}
		if len(n) != 1 && strings.HasSuffix(f.File, "real.html") {
			t.Errorf("%s has no second table", figure)
		}
	}
}

// quickstart is the real run that the README shows: its treatments share a block in slices.
func quickstart(t *testing.T, dir string) *result.Dir {
	t.Helper()
	must.OK(t, os.Mkdir(dir, 0o700))
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", "../../../docs/pictures/quickstart.tar.gz", "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	d := must.Get(result.Open(dir))(t)
	return d
}

// sameLadder compares the intervals of the steps, each from the end of the step before, and the table.
func sameLadder(t *testing.T, r *answer.Report, f finding) {
	if len(r.Ladders) == 0 {
		return
	}
	var intervals, want, rests []float64
	for _, p := range f.Marks["figure-ladder"] {
		intervals = append(intervals, flat(p.Intervals)...)
	}
	for _, m := range r.Ladders[0].Metrics {
		if !slices.Contains(metric.Shown(), m.Metric) {
			continue
		}
		from := 0.0
		for _, c := range m.Increments {
			if c.Difference.Known() {
				want = append(want, from+*c.Difference.Low, from+*c.Difference.High)
			}
			from += c.Difference.Estimate
		}
		if m.RestInterval != nil && m.RestInterval.Known() {
			want = append(want, from+*m.RestInterval.Low, from+*m.RestInterval.High)
		}
		if m.Whole.Known() {
			want = append(want, *m.Whole.Low, *m.Whole.High)
		}
		rests = append(rests, *m.Rest)
	}
	near(t, "ladder", intervals, want)
	var tabled []float64
	for _, row := range f.Tables["figure-ladder"] {
		if v, ok := row[5].(float64); ok && row[0] == "rest" {
			tabled = append(tabled, v)
		}
	}
	if !slices.Equal(tabled, rests) {
		t.Errorf("table of rests %v, want %v", tabled, rests)
	}
}

func flat(pairs [][2]float64) (all []float64) {
	for _, p := range pairs {
		all = append(all, p[0], p[1])
	}
	return all
}

// near compares values read back from pixels. Marks of equal order have equal places in the document.
func near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("%s: %d drawn, want %d", what, len(got), len(want))
		return
	}
	size := math.Max(math.Abs(want[0]), math.Abs(want[len(want)-1]))
	for i := range want {
		if math.Abs(got[i]-want[i]) > 0.004*size { // half a pixel
			t.Errorf("%s: drawn at %v, want %v", what, got[i], want[i])
		}
	}
}

// usable checks what a reader takes from the page.
func usable(t *testing.T, f finding) {
	svg, table := f.Downloads["SVG"], f.Downloads["CSV"]
	if !strings.HasPrefix(svg, "<svg") || strings.Contains(svg, "var(") || strings.Contains(svg, "<script") || !strings.Contains(svg, "difference") {
		t.Errorf("SVG: %.300s", svg)
	}
	if !strings.HasPrefix(f.Downloads["PNG"], "iVBORw0KGgo") {
		t.Errorf("PNG: %.20s", f.Downloads["PNG"])
	}
	if !strings.HasPrefix(table, "treatment,against,metric,unit,difference,low,high") || strings.Count(table, "\r\n") < 3 {
		t.Errorf("CSV: %.300s", table)
	}
	// Each table has a file of its own.
	for figure, tables := range f.TablesOf {
		if len(tables) != 1+len(f.Further[figure]) {
			t.Errorf("%s: %d files of %d tables", figure, len(tables), 1+len(f.Further[figure]))
			continue
		}
		for i, rows := range append([]int{len(f.Tables[figure])}, f.Further[figure]...) {
			if n := strings.Count(tables[i], "\r\n"); n < rows+1 {
				t.Errorf("%s: table %d has %d lines for %d rows", figure, i, n, rows)
			}
		}
	}
	if len(f.TablesOf["figure-latency"]) != 2 || !strings.HasPrefix(f.TablesOf["figure-latency"][1], "second,from ms,to ms,answers\r\n") {
		t.Errorf("tables of response times: %.300q", f.TablesOf["figure-latency"])
	}
	if f.PDF < 10_000 {
		t.Errorf("printed as %d bytes", f.PDF)
	}
	if f.Toggled == f.Background {
		t.Error("the switch changes no color")
	}
	if f.Reached < f.Controls {
		t.Errorf("the keyboard reaches %d of %d controls", f.Reached, f.Controls)
	}
}
