package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/balance"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// A metric without a verdict has its reason beside it: the warning that withheld most blocks.
func TestVerdictWithoutPairs(t *testing.T) {
	r := reportOf(t, small(nil))
	for i := range r.Trials {
		if r.Trials[i].Block > 1 {
			delete(r.Trials[i].Metrics, answerMedian)
			r.Trials[i].Warnings = append(r.Trials[i].Warnings, figures.Warning{Code: "generator-late", Withholds: true, Metrics: []string{metric.Latency}})
		}
	}
	for i := range r.Comparisons {
		if r.Comparisons[i].Metric == answerMedian {
			r.Comparisons[i].N, r.Comparisons[i].Verdict = 1, compare.Insufficient
		}
	}
	var b strings.Builder
	must.OK(t, writeText(&b, r, Options{}))
	if want := "3 of 4 blocks withheld: the generator sent late"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}

// Several treatments over the levels of a factor: the least and the dearest in one sentence, and every difference in one table.
// Levels have the names of the experiment file, and a treatment without a verdict is named.
func TestLevels(t *testing.T) {
	s := answertest.TwoRates()
	s.Treatments = nil
	for _, rate := range []float64{100, 1000} {
		for _, tr := range answertest.Quickstart().Treatments {
			if tr.Control {
				continue
			}
			suffix := fmt.Sprintf("-rate%.0f", rate)
			tr.Factors = plan.Factors{"mesh": tr.Factors["mesh"], "rate": rate}
			tr.ID += suffix
			if tr.Baseline != "" {
				tr.Baseline += suffix
			}
			s.Treatments = append(s.Treatments, tr)
		}
	}
	r := reportOf(t, s)
	r.Names = map[string]string{"none": "no sidecar", "envoy-tcp": "Envoy over TCP"}
	var b strings.Builder
	must.OK(t, writeText(&b, r, Options{Width: 80}))
	golden(t, "levels.txt", []byte(b.String()))
	if l := LevelsOf(r); l == nil || !slices.Equal(l.Heads, []string{"", "100/s", "1000/s"}) || len(l.Rows) != 3 || l.Rows[2][0] != "Envoy over TCP" || l.Rows[2][1] != "+74.4 ±3.7" {
		t.Errorf("%+v", l)
	}
	i := slices.IndexFunc(r.Questions, func(q compare.Question) bool { return strings.Contains(q.ID, "envoy-tcp") })
	for j := range r.Questions[i].Pooled {
		r.Questions[i].Pooled[j].Verdict = compare.Insufficient
	}
	want := []string{"Without a sidecar a request needs 63.0 µs of CPU, on average over 2 rates; each adds, least first:", "  envoy-plaintext: 157 ±8 µs, 3.6 times as much in all",
		"  envoy: 190 ±12 µs, 4.1 times as much in all", "  Envoy over TCP: too few trials for a verdict"}
	if got := Answer(r); !slices.Equal(got[:len(want)], want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The result and headings are bold on a terminal with colours, and their text is the same.
func TestColor(t *testing.T) {
	r := reportOf(t, small(nil))
	var plain, colored strings.Builder
	must.OK(t, errors.Join(writeText(&plain, r, Options{}), writeText(&colored, r, Options{Color: true})))
	if !strings.HasPrefix(colored.String(), "\x1b[1m") {
		t.Errorf("no bold line first: %.80q", colored.String())
	}
	if got := ansi.Strip(colored.String()); got != plain.String() {
		t.Errorf("another text:\n%s", got)
	}
}

// A report without --all has 40 lines at most, in common words, and ends with the sentences that it begins with.
func TestShortText(t *testing.T) {
	many := small(nil)
	for i := range 12 {
		tr := many.Treatments[2]
		tr.ID, tr.Factors = fmt.Sprint("envoy-", i), plan.Factors{"mesh": fmt.Sprint("envoy-", i)}
		many.Treatments = append(many.Treatments, tr)
	}
	for name, s := range map[string]answertest.Study{"many": many, "quickstart": answertest.Quickstart(), "two rates": answertest.TwoRates(), "troubled": troubled()} {
		r := reportOf(t, s)
		for _, width := range []int{40, 80, 0} {
			var b strings.Builder
			must.OK(t, writeText(&b, r, Options{Width: width}))
			lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
			if len(lines) > shortLines {
				t.Errorf("%s, %d columns: %d lines\n%s", name, width, len(lines), b.String())
			}
			for _, word := range []string{"Holm", "A/A", "80 % power"} {
				if strings.Contains(b.String(), word) {
					t.Errorf("%s: %q in\n%s", name, word, b.String())
				}
			}
			if first := lines[0]; len(lines) > screenLines && !strings.Contains(b.String(), "\nIn short: "+first[:20]) {
				t.Errorf("%s: the end is without %q\n%s", name, first, b.String())
			}
		}
	}
}

// With faults or expectations, the failed requests of each treatment come first, with what did not hold.
func TestAnswerWithFailures(t *testing.T) {
	treatment := func(mesh string, errors float64) compare.Treatment {
		return compare.Treatment{ID: mesh, Factors: plan.Factors{"mesh": mesh}, Metrics: map[string]compare.Estimate{
			metric.ErrorRatio: {Interval: stats.Interval{Estimate: errors}, N: 3}, metric.Recovery: {N: 3}}}
	}
	r := &answer.Report{Method: compare.Paired, Count: compare.Count{Planned: 9, Used: 9},
		Treatments: []compare.Treatment{treatment("none", 0.514), treatment("envoy", 0.231), treatment("envoy-retries", 0)},
		Expectations: []answer.Expectation{{Treatment: "none", Expect: "p99 < 250ms", N: 3, Held: 3}, {Treatment: "envoy", Expect: "p99 < 250ms", N: 3, Held: 1},
			{Treatment: "envoy", Expect: "status(5xx) == 0", N: 3}, {Treatment: "envoy-retries", Expect: "p99 < 250ms", N: 3, Held: 3}}}
	want := []string{"Requests that failed: 51.4 % without a mesh, 23.1 % with envoy, none with envoy-retries.",
		"2 of 4 targets missed: “response time p99 below 250 ms” with envoy; “no 5xx responses” with envoy.", "All 9 trials are valid."}
	got := Answer(r)
	for i, line := range want {
		if i >= len(got) || got[i] != line {
			t.Fatalf("%q, want line %d %q", got, i+1, line)
		}
	}
	// A treatment without a valid trial is not among those without failures.
	unmeasured := treatment("envoy", 0)
	unmeasured.Metrics = nil
	r.Treatments, r.Expectations = []compare.Treatment{treatment("none", 0), unmeasured}, r.Expectations[:1]
	r.Treatments[0].N, r.Trials, r.Count = 3, []figures.Trial{{Treatment: "envoy"}}, compare.Count{Planned: 6, Used: 3}
	got = Answer(r)
	for _, line := range []string{"No request failed, with any measured treatment.", "Every target was met in every valid trial.", "Not measured, since no trial is valid: envoy."} {
		if !slices.Contains(got, line) {
			t.Errorf("%q lacks %q", got, line)
		}
	}
}

// The first line of a run with faults: failed requests and arrived ones with their 95 % intervals, computed by hand with t = 3.1824
// of four trials. Of 200 requests 1, 2, 1 and 2 % failed, 1.5 ±0.919 %, and 0, 0, 1 and 3 %, 1 ±2.25 %, which ends at 0. Of 300, 306,
// 306, 309 and 303 arrived: 1.02 ±0.0130. The CPU of a request follows.
func TestAnswerWithRetries(t *testing.T) {
	failed := map[string][]int64{"none": {2, 4, 2, 4}, "none-control": {2, 4, 2, 4}, "envoy": {0, 0, 2, 6}}
	arrived := map[string][]int64{"none": {300, 300, 300, 300}, "none-control": {300, 300, 300, 300}, "envoy": {306, 306, 309, 303}}
	flow := func(service string, point balance.Point, n int64) balance.Flow {
		return balance.Flow{Place: balance.Place{Service: service, Point: point, Unit: balance.Requests}, Tally: balance.Tally{Count: n}}
	}
	r := reportOf(t, small(func(r *result.Record) {
		r.Tasks[0].Service = "echo"
		r.Faults = []result.Fault{{Kind: "errors", Targets: []string{"echo-0"}, Start: r.Load.Start}}
		if k := failed[r.Treatment]; k != nil {
			block := r.Block % len(k)
			r.Load.Classes = map[string]int64{"2xx": 200 - k[block], "status": k[block]}
			r.Balance = &balance.Balance{Flows: []balance.Flow{flow(balance.LoadName, balance.Sent, 300), flow("echo", balance.Served, arrived[r.Treatment][block])}, Equations: []balance.Equation{}}
		}
	}))
	want := []string{"While echo answered with errors, requests failed: 1.50 % (0.58 to 2.42) without a mesh, 1 % (0 to 3.25) with envoy." +
		" Requests that arrived at the services with faults, retries included, for each one sent: 1.000 without a mesh, 1.020 (1.007 to 1.033) with envoy.", "envoy uses "}
	got := Answer(r)
	for i, line := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], line) {
			t.Fatalf("%q, want line %d %q", got, i+1, line)
		}
	}
}

// A mark stays in the short text, also beside a figure without an interval.
func TestShortTextKeepsMarks(t *testing.T) {
	late := []figures.Warning{{Code: "generator-late"}}
	for _, c := range []struct {
		warnings    []figures.Warning
		short, long string
	}{{nil, "349", "349 ±?"}, {late, "349!", "349 ±?!"}} {
		tr := compare.Treatment{ID: "none", N: 2, Metrics: map[string]compare.Estimate{metric.Rate: {Interval: stats.Interval{Estimate: 349}, N: 2, Warnings: c.warnings}}}
		for short, want := range map[bool]string{true: c.short, false: c.long} {
			v := view{r: &answer.Report{Treatments: []compare.Treatment{tr}}, short: short}
			if got := v.treatmentColumn(metric.Rate, v.r.Treatments).cells[0]; got != want {
				t.Errorf("short %v: %q, want %q", short, got, want)
			}
		}
	}
}

// Every row of a table has its verdict, beside wide figures and long names too, and a title is as wide as the table.
func TestVerdictIsNeverLeftOut(t *testing.T) {
	g := gridOf([]int{0, 6}, "", "difference", "interval", "ratio", "interval", "pairs", "verdict")
	g.row("a gateway with a name of many words, request size 64KiB, rate 1000 against no mesh, request size 64KiB, rate 1000")
	g.row("  response time of the service, p99 !", "+1234.56 µs", "+1139.22 to +1345.01", "12.345x", "10.123 to 14.567", "13", "no difference shown (too few blocks: about 12 needed)")
	g.row("  CPU/request, total", "+1.2 µs", "±0.3", "1.2x", "1.1 to 1.3", "13", "11 of 13 blocks withheld: the generator sent late")
	for _, width := range []int{80, 100, 0} {
		for _, all := range []bool{false, true} {
			p := newPage(Options{Width: width}, false, "")
			p.short = !all
			p.tableAt(differenceColumns(g, Options{Width: width, All: all}, false), 1, "")
			lines := strings.Split(p.text(), "\n")
			first, _, _ := strings.Cut(p.text(), "\n\n")
			for _, cell := range []string{g[6].heads[0], g[6].cells[1], g[6].cells[2], g[0].cells[0]} {
				for _, word := range strings.Fields(cell) {
					if !strings.Contains(first, word) {
						t.Errorf("%d columns, all %v: no %q in\n%s", width, all, word, p.text())
					}
				}
			}
			if i := slices.IndexFunc(lines, func(line string) bool { return width > 0 && widthOf(line) > width }); i >= 0 {
				t.Errorf("%d columns, all %v: %q", width, all, lines[i])
			}
		}
	}
}

// Treatments of which some save CPU do not add it.
func TestRankingOfSavings(t *testing.T) {
	for size, want := range map[float64]string{-200: "each changes it by, least first:", 20: "each adds, least first:"} {
		all := []row{{size: size}, {size: 100}, {size: 300}}
		for i := range all {
			all[i].Metric = answerCost
			all[i].totals.baseline = 500
		}
		if got := costHead(all).Sentence; !strings.HasSuffix(got, want) {
			t.Errorf("%v: %q", size, got)
		}
	}
}
