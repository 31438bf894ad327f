package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

var update = flag.Bool("update", false, "write the table of docs/reference/imports.md again")

// The page of imports has a row for each source.
func TestImportsPage(t *testing.T) {
	const page, begin, end = "../../docs/reference/imports.md", "<!-- sources: go test ./internal/cli -run TestImportsPage -update -->\n", "<!-- end -->\n"
	text := string(must.Get(os.ReadFile(page))(t))
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no generated table", page)
	}
	table := "\n| source | files |\n|---|---|\n"
	for _, s := range importSources() {
		table += fmt.Sprintf("| `%s` | %s |\n", s.Name, s.Doc)
	}
	want := before + begin + table + "\n" + end + after
	switch {
	case text == want:
	case *update:
		must.OK(t, os.WriteFile(page, []byte(want), 0o644))
	default:
		t.Errorf("%s is out of date: go test ./internal/cli -run TestImportsPage -update", page)
	}
}

// fortioRun is a run of fortio at a minute, with 15,000 requests whose median is known.
func fortioRun(minute int, median float64) string {
	var data []string
	count := 0
	for i := range 100 { // 150 requests in each step of 1 % of the median
		from := median * (0.5 + float64(i)/100)
		data = append(data, fmt.Sprintf(`{"Start":%g,"End":%g,"Percent":%d,"Count":150}`, from, from+median/100, i+1))
		count += 150
	}
	return fmt.Sprintf(`{"RunType":"HTTP","StartTime":"2026-11-01T10:%02d:00Z","RequestedQPS":"500","ActualQPS":500,"ActualDuration":30000000000,"NumThreads":8,
		"DurationHistogram":{"Count":%d,"Min":%g,"Max":%g,"Avg":%g,"Data":[%s],"Percentiles":[{"Percentile":50,"Value":%g}]},"RetCodes":{"200":%d}}`,
		minute, count, median/2, median*1.5, median, strings.Join(data, ","), median, count)
}

// hyperfineRun is a file of hyperfine with the medians of two programs in seconds.
func hyperfineRun(old, fresh float64) string {
	of := func(command string, median float64) string {
		return fmt.Sprintf(`{"command": %q, "mean": %.9f, "median": %.9f, "user": 0.05, "system": 0.01, "min": %[4]g, "max": %[5]g, "times": [%[3]g, %[4]g, %[5]g, %[3]g], "exit_codes": [0, 0, 0, 0]}`, command, 1.025*median, median, 0.9*median, 1.2*median)
	}
	return `{"results": [` + of("old", old) + ", " + of("new", fresh) + "]}"
}

// One run of each program shows the figures, and how many runs an interval needs. Three have an interval.
func TestImportOfOneRun(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i, jitter := range []float64{1, 0.98, 1.03} {
		files = append(files, must.File(t, dir, fmt.Sprintf("%d.json", i), hyperfineRun(0.1*jitter, 0.2/jitter)))
	}
	first, _, _ := strings.Cut(must.Get(call(t, newReportCommand, imported(t, "hyperfine", files[0])))(t), "\n\n")
	want := "The wall time is 205 ms with new and 103 ms with old (+100 %): one run of each is too few for a verdict. An interval needs three runs of each: measure them in turn, and import all files: `tare import hyperfine FILE…`. " +
		"The CPU time is 60.00 ms with new and 60.00 ms with old (0.0 %): one run of each is too few for a verdict. All 2"
	if got := strings.Join(strings.Fields(first), " "); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	first, _, _ = strings.Cut(must.Get(call(t, newReportCommand, imported(t, "hyperfine", files...)))(t), "\n")
	if !strings.HasPrefix(first, "new takes more wall time than old: +9") {
		t.Errorf("of three runs: %q", first)
	}
}

// The answer of an import without CPU times is the difference of the times that are known.
func TestImportsOpenWithTheTimes(t *testing.T) {
	dir := t.TempDir()
	var all, two []string
	for run := range 4 {
		for i, mesh := range []string{"none", "istio"} {
			jitter := 1 + float64(run-1)/1000
			path := must.File(t, dir, fmt.Sprintf("%s-%d.json", mesh, run+1), fortioRun(2*(2*run+i), []float64{0.002, 0.0033}[i]*jitter))
			if all = append(all, path); run == 0 {
				two = append(two, path)
			}
		}
	}
	four := imported(t, "fortio", all...)
	text := must.Get(call(t, newReportCommand, four))(t)
	first, _, _ := strings.Cut(text, "\n")
	page, _, _ := strings.Cut(must.Get(call(t, newReportCommand, four, "--format", "html"))(t), "</header>")
	must.Contain(t, page, first, "Differences (unpaired", "service time, p50", "higher")
	var added float64
	if _, err := fmt.Sscanf(first, "istio adds %g", &added); err != nil || added < 1.29 || added > 1.31 || !strings.Contains(first, "median service time") {
		t.Errorf("1.3 ms were added, and the report begins with %q", first)
	}
	for _, absent := range []string{"nothing to compare", "?", "CPU"} {
		if strings.Contains(text, absent) {
			t.Errorf("the report has %q:\n%s", absent, text)
		}
	}
	text = must.Get(call(t, newReportCommand, imported(t, "fortio", all[0])))(t)
	first, _, _ = strings.Cut(text, "\n")
	if !strings.Contains(first, "the median service time is 2.00 ms, with 500 answers per second, and 0 % of the requests fail.") {
		t.Errorf("one run alone: %q", first)
	}
	// Two results compared begin with the difference of what both have.
	later := imported(t, "fortio", "--mesh", "none", must.File(t, t.TempDir(), "none-1.json", fortioRun(40, 0.0033)))
	text = must.Get(call(t, newCompareCommand, imported(t, "fortio", "--mesh", "none", all[0]), later, "--anyway"))(t)
	if first, _, _ = strings.Cut(text, "\n"); first != "no mesh: the median service time is 3.3 ms, before 2.0 ms (+1.30 ms): one run each, and an interval needs three." {
		t.Errorf("two imports compared: %q", first)
	}
	// One run of each has no interval, and is not one treatment of two runs.
	text = must.Get(call(t, newReportCommand, imported(t, "fortio", two...)))(t)
	first, _, _ = strings.Cut(text, "\n")
	must.Contain(t, text, "3.3 ms with istio", "2.0 ms without a mesh")
	if strings.Contains(first, "adds") {
		t.Errorf("one run of each: %q", first)
	}
}
