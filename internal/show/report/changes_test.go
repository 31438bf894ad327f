package report

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// changing is a treatment with 36 changes in each of two trials.
func changing(id string, last, failed float64) compare.Treatment {
	low, high := last-0.2, last+0.3
	of := func(v float64) compare.Estimate { return compare.Estimate{Interval: stats.Interval{Estimate: v}, N: 2} }
	return compare.Treatment{ID: id, Factors: map[string]any{"mesh": id}, N: 2, Metrics: map[string]compare.Estimate{
		metric.Of(metric.ChangesMade, "route-changed"):       of(36),
		metric.Of(metric.ChangeFailed, "route-changed"):      of(failed),
		metric.Of(metric.ChangeCPU, "route-changed-app"):     of(0.5),
		metric.Of(metric.ChangeLastOld, "route-changed"):     {Interval: stats.Interval{Estimate: last, Low: &low, High: &high}, N: 2},
		metric.Of(metric.ChangeLastOldMost, "route-changed"): {Interval: stats.Interval{Estimate: last + 0.5, Low: &low, High: new(high + 0.7)}, N: 2},
	}}
}

// The parts of changes are marked as what the mesh counts, unknown parts are no figure, and those left out are counted.
func TestChangePartsSection(t *testing.T) {
	ms := func(v, half float64) stats.Interval {
		low, high := v-half, v+half
		return stats.Interval{Estimate: v, Low: &low, High: &high}
	}
	r := &answer.Report{Confidence: 0.95, Treatments: []compare.Treatment{changing("envoy-xds", 2, 0), changing("consul", 9, 0)},
		ChangeParts: []answer.ChangeParts{
			{Treatment: "envoy-xds", Kind: "route-changed", Changes: 12, LeftOut: 2, ResolutionMS: 1, Whole: ms(53, 0.5), Parts: []answer.ChangePart{{Name: "control plane", MS: ms(50.2, 0.2)}, {Name: "workers", MS: ms(2.8, 0.6)}}},
			{Treatment: "consul", Kind: "route-changed", Changes: 9, Whole: ms(9, 1), Parts: []answer.ChangePart{{Name: "workers", MS: ms(1, 0.5)}}}}}
	p := newPage(Options{}, false, "")
	changePartsSection(text{p, newView(r)})
	got := p.text()
	for _, want := range []string{"diagnosis by what control plane and proxies count", "50.20 ±0.20", "Left out: 2 changes whose parts are longer than the whole.", "up to 1.0 ms longer"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if !regexp.MustCompile(`consul +route-changed +- +1\.00 ±0\.50 +9\.0 ±1\.0 +9`).MatchString(got) {
		t.Errorf("a part that is not known has a figure:\n%s", got)
	}
}

func TestChanges(t *testing.T) {
	const half = "Half of the route changes reach every connection after at least 2.13, at most 2.61 ms (1.9 to 3.1) without a mesh, at least 52, at most 67 ms (53 to 54) with envoy-xds."
	for name, c := range map[string]struct {
		failed, dropped float64
		want            []string
	}{
		"no failure": {0, 0, []string{"No request failed during a route change. From 72 changes of each treatment: at most 4.2 % of changes fail requests (95 % confidence).", half}},
		"failures":   {0.25, 0, []string{"Failed requests during a route change: none in 72 without a mesh, 18 in 72 changes (0.25 a change) with envoy-xds.", half}},
		"dropped":    {0, 8, []string{"No request failed during a route change. From 72 changes of each treatment: at most 4.2 % of changes fail requests (95 % confidence).", "Connections that the server dropped during a route change: 8.0 with envoy-xds.", half}},
	} {
		proxied := changing("envoy-xds", 53, c.failed)
		proxied.Metrics[metric.Of(metric.ChangeDropped, "route-changed")] = compare.Estimate{Interval: stats.Interval{Estimate: c.dropped}, N: 2}
		r := &answer.Report{Treatments: []compare.Treatment{changing("none", 2.1, 0), proxied}, ChangeTimes: []answer.ChangeTimes{
			{Treatment: "none", Kind: "route-changed", Changes: 72, Quantile: 0.5, FromMS: 2.13, ToMS: new(2.61)},
			{Treatment: "envoy-xds", Kind: "route-changed", Changes: 72, Quantile: 0.5, FromMS: 52.9, ToMS: new(66.2)}}}
		for block, share := range []float64{c.failed / 2, 3 * c.failed / 2} {
			r.Trials = append(r.Trials, figures.Trial{Treatment: "envoy-xds", Block: block, Valid: true, Metrics: map[string]float64{
				metric.Of(metric.ChangesMade, "route-changed"): 36, metric.Of(metric.ChangeFailed, "route-changed"): share}})
		}
		v := newView(r)
		if got, want := strings.Join(sentencesOf(changeClaims(v)), "\n"), strings.Join(c.want, "\n"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
		p := newPage(Options{}, false, "")
		changesSection(text{p, v})
		if table := p.text(); !strings.Contains(table, "\n  route changes\n") || strings.Contains(table, "endpoint") || !regexp.MustCompile(`envoy-xds +(0|0\.25) +52 to 67 +72`).MatchString(table) {
			t.Errorf("%s: table\n%s", name, table)
		}
	}
}

// Of two kinds the one by which more requests fail comes first.
func TestWorstChangesComeFirst(t *testing.T) {
	tr := changing("envoy", 2, 0)
	for name, v := range map[string]float64{metric.ChangesMade: 30, metric.ChangeFailed: 168} {
		tr.Metrics[metric.Of(name, metric.ProxyRestarted)] = compare.Estimate{Interval: stats.Interval{Estimate: v}, N: 2}
	}
	got := sentencesOf(changeClaims(newView(&answer.Report{Treatments: []compare.Treatment{tr}})))
	if want := "Failed requests during a proxy restart: 168 a change with envoy."; len(got) < 2 || got[0] != want {
		t.Errorf("got %q, want %q first", got, want)
	}
	one := changeClaims(newView(&answer.Report{Count: compare.Count{Blocks: 1}, Treatments: []compare.Treatment{tr}}))
	if want := got[0] + " One block: no intervals."; one[0].Sentence != want {
		t.Errorf("of one block: %q, want %q", one[0].Sentence, want)
	}
}

// Three kinds of changes are one table: a row for each kind and treatment, the kind by which most requests fail first. It fits into 80
// columns with what matters: the failed requests with their interval, and the bounds of both times. The page has the same cells.
func TestChangesOfSeveralKinds(t *testing.T) {
	of := func(v, half float64) compare.Estimate { return compare.Estimate{Interval: around(v, half), N: 4} }
	treatments := []compare.Treatment{changing("none", 2.1, 0), changing("envoy-xds", 53, 0)}
	for i, tr := range treatments {
		for name, e := range map[string]compare.Estimate{
			metric.Of(metric.ChangesMade, metric.ProxyRestarted): of(15, 0), metric.Of(metric.ChangeFailed, metric.ProxyRestarted): of(float64(168*i), 12*float64(i)), metric.Of(metric.ChangeFailing, metric.ProxyRestarted): of(float64(i), 0),
			metric.Of(metric.ChangesMade, metric.CertificateRenewed): of(30, 0), metric.Of(metric.ChangeFailed, metric.CertificateRenewed): of(0.25*float64(i), 0.125),
			metric.Of(metric.ChangeFirstNew, metric.CertificateRenewed): of(12.07, 1), metric.Of(metric.ChangeFirstNewMost, metric.CertificateRenewed): of(17.23, 1),
			metric.Of(metric.ChangeDropped, metric.CertificateRenewed): of(0, 0),
		} {
			tr.Metrics[name] = e
		}
	}
	r := &answer.Report{Confidence: 0.95, Treatments: treatments, ChangeTimes: []answer.ChangeTimes{
		{Treatment: "none", Kind: metric.RouteChanged, Changes: 72, Quantile: 0.5, FromMS: 2.13, ToMS: new(2.61)},
		{Treatment: "envoy-xds", Kind: metric.RouteChanged, Changes: 72, Quantile: 0.5, FromMS: 52.9, ToMS: new(66.2)},
		{Treatment: "envoy-xds", Kind: metric.ProxyRestarted, Changes: 60, FromMS: 812, ToMS: new(955.0)},
		{Treatment: "envoy-xds", Kind: metric.CertificateRenewed, Changes: 120, Quantile: 0.5, FromMS: 20.5, ToMS: new(24.0)}}}
	want := [][]string{{"proxy restarts"}, {"no mesh", "0", "-", "-", "60"}, {"envoy-xds", "168 (156 to 180)", "-", "(812 to 955)", "60"},
		{"certificate renewals"}, {"no mesh", "0", "12.0 to 17.3", "-", "120"}, {"envoy-xds", "0.25 (0.12 to 0.38)", "12.0 to 17.3", "20.5 to 24.0", "120"},
		{"route changes"}, {"no mesh", "0", "-", "2.13 to 2.61", "72"}, {"envoy-xds", "0", "-", "52 to 67", "72"}}
	page := ChangesOf(r)
	for i, row := range want {
		got := page.Rows[i]
		if len(got) > 1 {
			got = got[:5]
		}
		if got[0] = strings.TrimSpace(got[0]); !slices.Equal(got, row) {
			t.Errorf("row %d of the page: %q, want %q", i, got, row)
		}
	}
	if len(page.Rows) != len(want) || slices.ContainsFunc(page.Heads, func(head string) bool { return strings.Contains(head, "dropped") }) {
		t.Errorf("page: %q", page)
	}
	for _, short := range []bool{true, false} {
		p := newPage(Options{Width: 80}, false, "")
		p.short = short
		v := newView(r)
		v.short = short
		changesSection(text{p, v})
		first, _, _ := strings.Cut(p.text(), "\n\n")
		lines := strings.Split(first, "\n")
		at := 0
		for _, row := range want {
			for at < len(lines) && !strings.HasPrefix(strings.Join(strings.Fields(lines[at]), " "), strings.Join(row, " ")) {
				at++
			}
		}
		if at == len(lines) || slices.ContainsFunc(lines, func(line string) bool { return widthOf(line) > 80 }) {
			t.Errorf("short %v: want the rows %q in\n%s", short, want, p.text())
		}
		for _, note := range []string{"In brackets: from the shortest to the longest", "Of a restart: the first answer after failures"} {
			if !strings.Contains(p.text(), note) {
				t.Errorf("no %q in\n%s", note, p.text())
			}
		}
	}
	r.Treatments = treatments[1:] // one treatment needs no titles
	if rows := ChangesOf(r).Rows; len(rows) != 3 || rows[0][0] != "proxy restarts" || rows[0][1] != "168 (156 to 180)" {
		t.Errorf("one treatment: %q", rows)
	}
	if ChangesOf(&answer.Report{}) != nil {
		t.Error("a table of changes without changes")
	}
}

// Of changes of which nothing was seen there is no time, and a command is not folded.
func TestChangesWithoutATime(t *testing.T) {
	tr := changing("envoy", 2, 0)
	delete(tr.Metrics, metric.Of(metric.ChangeLastOld, metric.RouteChanged))
	r := &answer.Report{Count: compare.Count{Blocks: 2, Used: 2, Planned: 2}, Method: compare.Paired, Treatments: []compare.Treatment{tr}, ChangeTimes: []answer.ChangeTimes{{Treatment: "envoy", Kind: metric.RouteChanged, Changes: 4}}}
	if got := sentencesOf(changeClaims(newView(r))); len(got) != 1 || strings.Contains(got[0], "took") {
		t.Errorf("%q", got)
	}
	if got := ChangesOf(r); !slices.Equal(got.Rows[0], []string{"route changes", "0", "72"}) {
		t.Errorf("%q", got)
	}
	for width := 30; width < 100; width++ {
		p := newPage(Options{Width: width}, false, "")
		p.prose("Only two repetitions, too few for small differences: repeat with `--set blocks=8`.")
		if !strings.Contains(p.text(), "`--set blocks=8`") {
			t.Errorf("%d columns:\n%s", width, p.text())
		}
	}
}

// Failures without a restart are marked.
func TestUnrestarted(t *testing.T) {
	r := &answer.Report{Treatments: []compare.Treatment{changing("none", 2, 0), changing("istio", 3, 4)}, Unrestarted: []answer.Unrestarted{{Treatment: "none", Kind: metric.RouteChanged}}}
	v := newView(r)
	got := strings.Join(sentencesOf(changeClaims(v)), "\n")
	if want := "none in 72 (nothing restarts) without a mesh, 4.0 a change with istio."; !strings.Contains(got, want) {
		t.Errorf("%q is not in\n%s", want, got)
	}
	p := newPage(Options{}, false, "")
	changesSection(text{p, v})
	if got := p.out.String(); strings.Count(got, "Route changes end no process without a mesh: a failure there has another cause.") != 1 {
		t.Errorf("got\n%s", got)
	}
}

// Changes that are too few for a median have the range of what was seen.
func TestFewChanges(t *testing.T) {
	treatments := []compare.Treatment{changing("none", 2, 0), changing("istio", 3, 0)}
	for _, tr := range treatments {
		delete(tr.Metrics, metric.Of(metric.ChangeLastOld, metric.RouteChanged))
	}
	to := 52.4
	r := &answer.Report{Directory: "runs/x", Treatments: treatments, ChangeMedians: &answer.ChangeMedians{Each: 30, Count: 60, MeasureSeconds: 121.2}, ChangeTimes: []answer.ChangeTimes{
		{Treatment: "none", Kind: metric.RouteChanged, Changes: 6, FromMS: 31.2, ToMS: &to},
		{Treatment: "istio", Kind: metric.RouteChanged, Changes: 4, FromMS: 180}}}
	const want = "Too few route changes for a median: 6 took 31 to 52 ms without a mesh, 4 took over 180 ms with istio." +
		" It needs 30 of each kind in a trial: `tare run runs/x/experiment.yaml --set changes.count=60 --set phases.measure=122s`."
	if got := changeClaims(newView(r)); got[1].Sentence != want || got[1].Of[0].Amount.Estimate != 31.2 || *got[1].Of[0].AtMost != to || got[1].Of[1].AtMost != nil {
		t.Errorf("got %+v, want %q", got[1], want)
	}
}

// Version changes have both versions, and those after which a new proxy ran another one.
func TestVersionMoves(t *testing.T) {
	istio := changing("istio", 3, 0)
	r := &answer.Report{Treatments: []compare.Treatment{istio}, VersionMoves: []answer.VersionMove{{Treatment: "istio", From: "1.29.0", To: "1.30.1", Changes: 4, Proxies: 12, Incomplete: 1}}}
	p := newPage(Options{}, false, "")
	changesSection(text{p, newView(r)})
	if got, want := p.out.String(), "From version 1.29.0 to 1.30.1 with istio: 4 changes, 12 new proxies; after 1 of them a new proxy did not run 1.30.1."; !strings.Contains(got, want) {
		t.Errorf("%q is not in\n%s", want, got)
	}
}

// Stages of the control plane are marked as what it counts itself. A quantile is a bucket, and one of too few times is unknown.
func TestControlTimesSection(t *testing.T) {
	low, high := 150.0, 250.0
	r := &answer.Report{Confidence: 0.95, Treatments: []compare.Treatment{changing("istio", 200, 0)}, ControlTimes: []answer.ControlTimes{
		{Treatment: "istio", Stage: "debounce", Count: 1200, Mean: stats.Interval{Estimate: 200, Low: &low, High: &high}, P50: &answer.Bounds{FromMS: 100, ToMS: &high}, P99: &answer.Bounds{FromMS: 30000}},
		{Treatment: "istio", Stage: "queue", Count: 4, Mean: stats.Interval{Estimate: 0.055}, P50: &answer.Bounds{ToMS: &low}}}}
	p := newPage(Options{}, false, "")
	controlTimesSection(text{p, newView(r)})
	got := p.out.String()
	for _, want := range []string{"diagnosis by what it counts itself", `istio +debounce +200 ±50 +100 to 250 +over 30000 +1200`, `istio +queue +0\.0550 ±\? +up to 150 +- +4`} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}
