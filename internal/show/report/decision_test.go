package report_test

import (
	"bytes"
	"encoding/xml"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/answer/effective"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/show/report"
	"github.com/tare-mesh/tare/internal/stats"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

func gated(t *testing.T, more float64, blocks int) *answer.Report {
	t.Helper()
	return analyzed(t, answertest.AB(more, blocks))
}

func analyzed(t *testing.T, s answertest.Study) *answer.Report {
	t.Helper()
	d := s.Write(t, filepath.Join(t.TempDir(), "run"))
	defer d.Close()
	r := must.Get(answer.Analyze(d, compare.Options{}))(t)
	return r
}

// An outlier leaves a gate undecided that the test alone decides, and every format prints why.
func TestDecisionUnderDoubt(t *testing.T) {
	s := answertest.ABWithOutlier()
	s.YAML = strings.Replace(s.YAML, "+2%", "+13%", 1)
	r := analyzed(t, s)
	if d := r.Decisions[0]; r.Decided() != compare.Undecided || d.Doubted != compare.Holds || len(d.Doubts) != 1 {
		t.Fatalf("%+v", d)
	}
	for format, outcome := range map[string]string{"decision": "” is undecided: ", "text": "” is undecided: ", "markdown": "” is undecided: ", "comment": "1 gate undecided", "junit": `skipped="1"`, "json": `"undecided"`} {
		f, ok := report.Lookup(format, report.Options{Width: 2000})
		if !ok {
			t.Fatalf("no format %s", format)
		}
		var b bytes.Buffer
		must.OK(t, f.Write(&b, r))
		got := b.String()
		if !strings.Contains(got, "outlier-block") || !strings.Contains(got, outcome) || strings.Contains(got, "5 % at most") || strings.Contains(got, "more time hardly helps") {
			t.Errorf("%s:\n%s", format, got)
		}
	}
	if got, want := report.OutcomesInWords(r.Decisions), "1 gate undecided"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.YAML = strings.Replace(s.YAML, "+13%", "+40%", 1)
	if d := analyzed(t, s).Decisions[0]; d.Outcome != compare.Holds || d.Doubts != nil {
		t.Errorf("a limit beyond three times the interval: %+v", d)
	}
}

func TestDecisionFormats(t *testing.T) {
	opening := func(outcome compare.Outcome) string {
		return "The gate “CPU/request, data plane < +2%” " + map[compare.Outcome]string{compare.Breached: "is breached: ", compare.Holds: "holds: ", compare.Undecided: "is undecided: "}[outcome]
	}
	for _, c := range []struct {
		more      float64
		blocks    int
		outcome   compare.Outcome
		text, xml string
	}{
		{0.1, 8, compare.Breached, "The gate “CPU/request, data plane < +2%” is breached: ", `failures="1"`},
		{0, 8, compare.Holds, "The gate “CPU/request, data plane < +2%” holds: ", `failures="0"`},
		{0, 3, compare.Undecided, "The gate “CPU/request, data plane < +2%” is undecided: ", `skipped="1"`},
	} {
		r := gated(t, c.more, c.blocks)
		if got := r.Decided(); got != c.outcome || len(r.Decisions) != 1 {
			t.Errorf("%v more, %d blocks: %s, want %s: %+v", c.more, c.blocks, got, c.outcome, r.Decisions)
			continue
		}
		d := r.Decisions[0]
		if d.Control == nil || d.Pairs != c.blocks || d.Baseline != "envoy-a" {
			t.Errorf("%+v", d)
		}
		if got, want := report.Answer(r)[0], opening(c.outcome); !strings.HasPrefix(got, want) || !strings.Contains(got, " with envoy-b instead of ") {
			t.Errorf("%q, want %q", got, want)
		}
		for format, want := range map[string]string{"decision": c.text, "junit": c.xml, "text": opening(c.outcome)} {
			f, _ := report.Lookup(format, report.Options{})
			var b bytes.Buffer
			must.OK(t, f.Write(&b, r))
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s lacks %q:\n%s", format, want, b.String())
			}
			if format == "junit" {
				if err := xml.Unmarshal(b.Bytes(), new(struct{})); err != nil {
					t.Errorf("%v in\n%s", err, b.String())
				}
			}
		}
	}
}

// A gate beside programs that were not warm has the time that they need, and beside trials that sent late has no word of it.
func TestDecisionNotWarm(t *testing.T) {
	r := gated(t, 0.1, 8)
	r.Warnings = []figures.Warning{{Code: "not-warm", Message: "the program is warm after about 48s"}, {Code: "generator-late", Message: "late"}}
	f, _ := report.Lookup("decision", report.Options{})
	var b bytes.Buffer
	must.OK(t, f.Write(&b, r))
	if got := b.String(); !strings.Contains(got, "Warning not-warm: the program is warm after about 48s") || strings.Contains(got, "late\n") || !strings.Contains(got, "5 % at most") {
		t.Errorf("%s", got)
	}
}

// A gate on a cold build is undecided in every format, with the time that the build needs, and its error is unknown.
func TestDecisionOfAColdBuild(t *testing.T) {
	s := answertest.AB(0.1, 8)
	s.Change = func(r *result.Record) {
		if r.Treatment == "envoy-b" {
			r.Warnings = append(r.Warnings, result.Warning{Code: "not-warm", Message: "the program is warm after about 48s", Metrics: metric.CPU()})
		}
	}
	r := analyzed(t, s)
	if d := r.Decisions[0]; r.Decided() != compare.Undecided || d.Doubted != compare.Breached {
		t.Fatalf("%+v", d)
	}
	for _, format := range []string{"decision", "text", "markdown", "comment", "junit"} {
		f, _ := report.Lookup(format, report.Options{Width: 2000})
		var b bytes.Buffer
		must.OK(t, f.Write(&b, r))
		if got := b.String(); !strings.Contains(got, "not-warm") || !strings.Contains(got, "48s") || strings.Contains(got, "5 % at most") {
			t.Errorf("%s:\n%s", format, got)
		}
	}
}

// Without pairs there are no figures, and no advice that needs them.
func TestDecisionWithoutPairs(t *testing.T) {
	r := gated(t, 0, 3)
	f, _ := report.Lookup("decision", report.Options{})
	for _, c := range []struct {
		pairs int
		want  string
	}{{3, "At the end of the run: 3 of at most 3 pairs"}, {0, "undecided: envoy-b against envoy-a.\nAt the end of the run: 0 of at most 3 pairs"}} {
		pairs, want := c.pairs, c.want
		if d := &r.Decisions[0]; pairs == 0 {
			d.A, d.B, d.Change, d.Control, d.Pairs = nil, nil, nil, nil, 0
		}
		var b bytes.Buffer
		must.OK(t, f.Write(&b, r))
		got := b.String()
		if !strings.Contains(got, want) || !strings.Contains(got, "A gate is decided from 4 pairs on.") || strings.Contains(got, "close to the limit") {
			t.Errorf("%d pairs:\n%s", pairs, got)
		}
	}
	d := &r.Decisions[0]
	d.Lost = []compare.LostPair{{Block: 2, Treatment: "envoy-b", Reason: "rate-missed", Message: "400 of 450 requests"}}
	r.Warnings = append(r.Warnings, figures.Warning{Code: "rate-missed", Hint: "lower the rate"})
	var b bytes.Buffer
	must.OK(t, f.Write(&b, r))
	must.Contain(t, b.String(), "No pair from block 2: fewer answers than the rate (envoy-b: 400 of 450 requests). For one: lower the rate.")
}

// The comment has the outcome first and the report folded. A field that only B has does not get a list of its own.
func TestCommentFormat(t *testing.T) {
	r := gated(t, 0.1, 8)
	r.Configurations = []answer.Configuration{{A: "envoy-a", B: "envoy-b", Differences: []effective.Difference{{Path: "access_log", B: "file"}}}}
	r.Decisions[0].Lost = []compare.LostPair{{Block: 2, Treatment: "envoy-b", Reason: "rate-missed", Message: "80 % of <b>requests</b>\nmore"}, {Block: 4, Treatment: "envoy-a", Reason: "rate-missed"}}
	r.Warnings = []figures.Warning{{Code: answer.AnswersDiffer, Message: "GET / has other answers"}}
	f, _ := report.Lookup("comment", report.Options{})
	var b bytes.Buffer
	must.OK(t, f.Write(&b, r))
	for _, want := range []string{"### tare: 1 gate breached\n", "gate breached\n\nWarning: GET / has other answers. The figures compare different work.\n\n", "| CPU/request, data plane &lt; +2% | breached | ",
		"- No pair from 2 blocks (2, 4): fewer answers than the rate (envoy-b: 80 % of &lt;b&gt;requests&lt;/b&gt;).\n", "\n- \\+ access\\_log", "\n<details><summary>Report</summary>\n\n", "\n</details>\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// With several gates each remark has its gate, and the sides are named once.
func TestCommentOfSeveralGates(t *testing.T) {
	r := gated(t, 0.1, 8)
	second := r.Decisions[0]
	second.Gate, second.Outcome, second.MorePairs, second.Minutes, second.Why, second.Control = "memory_mib/data < +4MiB", compare.Undecided, 6, 0.7, "", nil
	r.Decisions = append(r.Decisions, second)
	f, _ := report.Lookup("comment", report.Options{})
	var b bytes.Buffer
	must.OK(t, f.Write(&b, r))
	got := b.String()
	for _, want := range []string{"\n- CPU/request, data plane &lt; +2%: envoy-a against itself, which is noise: ", "\n- memory\\_mib/data &lt; +4MiB: It would need about 1 more minute (6 pairs).\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if lines := report.Answer(r); !strings.HasPrefix(lines[0], "The gate “CPU/request, data plane < +2%” is breached: ") || !strings.Contains(lines[1], "” is undecided: ") || len(lines) != 3 {
		t.Errorf("%q", lines)
	}
	opening, _, _ := strings.Cut(got, "<details>")
	if n := strings.Count(opening, "- A is envoy-a, B is envoy-b.\n"); n != 1 {
		t.Errorf("the sides are named %d times in\n%s", n, got)
	}
}

// Gates of one text on several treatments have rows with the treatment, and a remark that several have is there once.
func TestRemarksOfSeveralTreatments(t *testing.T) {
	r := gated(t, 0.1, 8)
	gate := r.Decisions[0]
	gate.Outcome, gate.Why, gate.Control, gate.Lost, r.Decisions = compare.Undecided, "the last blocks alone differ", nil, nil, nil
	for _, rate := range []string{"100", "500", "1000"} {
		gate.Baseline, gate.Treatment = "none-rate"+rate, "envoy-rate"+rate
		r.Decisions = append(r.Decisions, gate)
	}
	r.Decisions[2].Why = "a value is zero"
	f, _ := report.Lookup("text", report.Options{All: true})
	var b bytes.Buffer
	must.OK(t, f.Write(&b, r))
	got := strings.Join(strings.Fields(b.String()), " ")
	for want, times := range map[string]int{
		"gate B result change": 1, "CPU/request, data plane < +2% envoy-rate500 undecided": 1, "A is the baseline of B: none-rate100 of envoy-rate100, none-rate500 of envoy-rate500,": 1,
		"2 of 3 gates (CPU/request, data plane < +2% of envoy-rate100, CPU/request, data plane < +2% of envoy-rate500): The last blocks alone differ.": 1,
		"CPU/request, data plane < +2% of envoy-rate1000: A value is zero.":                                                                            1, "The last blocks alone differ.": 3, // and in the first line and the last one
	} {
		if n := strings.Count(got, want); n != times {
			t.Errorf("%d times %q in\n%s", n, want, b.String())
		}
	}
	for i := range r.Decisions {
		r.Decisions[i].Baseline = "none"
	}
	b.Reset()
	must.OK(t, f.Write(&b, r))
	if got := b.String(); strings.Count(got, "A is none.") != 1 || strings.Contains(got, "A is the baseline of B") {
		t.Errorf("one baseline is not named once in\n%s", got)
	}
}

// Every gate keeps its change, its interval and both sides in each width, in the short text too: they are the result.
func TestGatesKeepTheirChange(t *testing.T) {
	of := func(treatment, text, name string, b float64, outcome compare.Outcome, pairs int) compare.Decision {
		return compare.Decision{Gate: text, Metric: name, Treatment: treatment, Baseline: "none", Outcome: outcome, Pairs: pairs, Max: 40, Unit: "%",
			A: new(707.0), B: &b, Change: &stats.Interval{Estimate: 6.4, Low: new(3.1), High: new(9.8)}}
	}
	data, median := metric.Of(metric.CPUPerRequest, "data"), metric.Of(metric.Latency, "p50")
	one := []compare.Decision{of("envoy", data+" < +25%", data, 737, compare.Holds, 12), of("envoy", median+" < +5%", median, 737, compare.Undecided, 12)}
	several := append(slices.Clone(one), of("envoy-access-log", data+" < +25%", data, 751, compare.Breached, 12))
	unlike := append(slices.Clone(several), of("nginx", median+" < +5%", median, 766, compare.Holds, 16))
	for name, gates := range map[string][]compare.Decision{"one treatment": one, "several": several, "of unlike pairs": unlike} {
		r := gated(t, 0, 3)
		r.Decisions = gates
		for _, width := range []int{80, 120, 0} {
			for _, all := range []bool{true, false} {
				f, _ := report.Lookup("text", report.Options{All: all, Width: width})
				var b bytes.Buffer
				must.OK(t, f.Write(&b, r))
				_, section, _ := strings.Cut(b.String(), "\nGates")
				section, _, _ = strings.Cut(section, "\n\n")
				table := strings.Join(strings.Fields(section), " ")
				counts := []int{strings.Count(table, "+6.4 %"), strings.Count(table, "(+3.1 to +9.8)"), strings.Count(table, " → ")}
				if strings.Contains(table, "more column") || slices.ContainsFunc(counts, func(n int) bool { return n < len(gates) }) {
					t.Errorf("%s, %d columns, all %v: %v of %d gates in\n%s", name, width, all, counts, len(gates), section)
				}
				for _, line := range strings.Split(section, "\n") {
					if n := utf8.RuneCountInString(line); width > 0 && n > width {
						t.Errorf("%s: %d columns of %d: %s", name, n, width, line)
					}
				}
				if same := name != "of unlike pairs"; strings.Contains(section, "after 12 of at most 40 pairs") != same || strings.Contains(table, "12 of 40") == same {
					t.Errorf("%s: pairs in\n%s", name, section)
				}
			}
		}
	}
}

// An undecided gate needs a longer time. A file without one is run again for 10 and 2.5 minutes, with the 12 blocks planned and 5 more.
func TestWhatSettlesAGate(t *testing.T) {
	r := analyzed(t, answertest.AB(0, 12))
	begin, end := time.Unix(0, 0), time.Unix(600, 0)
	r.Setup.FirstStart, r.Setup.LastEnd, r.Directory = &begin, &end, "runs/ab"
	change := stats.Interval{Estimate: 1}
	for timed, want := range map[bool]string{true: "About 3 more minutes would settle it: `--max-time 13m`.", false: "About 13 minutes would settle it: `tare run runs/ab/experiment.yaml --set blocks=17`."} {
		r.Decisions = []compare.Decision{{Gate: "cpu_us_per_request/data < +2%", Metric: "cpu_us_per_request/data", Treatment: "envoy-b", Baseline: "envoy-a", Outcome: compare.Undecided, Unit: "%", Upper: true, Limit: 2, Change: &change, Pairs: 12, Max: 12, MorePairs: 5, Minutes: 2.5, Timed: timed}}
		if got := strings.Join(report.Answer(r), " "); !strings.Contains(got, want) {
			t.Errorf("timed %v: %q", timed, got)
		}
	}
}

// Of two gates each has its reason in its sentence, and one without pairs has why: their intervals alone may look like another outcome. The
// format of decisions has those first that do not hold.
func TestReasonsOfSeveralGates(t *testing.T) {
	r := analyzed(t, answertest.AB(0, 12))
	holds, open := r.Decisions[0], r.Decisions[0]
	holds.Outcome, open.Outcome = compare.Holds, compare.Undecided
	for want, change := range map[string]func(*compare.Decision){
		" The mean is beyond the limit because of a few blocks.": func(d *compare.Decision) { d.Why = "the mean is beyond the limit because of a few blocks" },
		" Doubted: programs were not warm. Without this doubt: breached.": func(d *compare.Decision) {
			d.Doubts, d.Doubted = []string{"not-warm: 2 of 8 trials"}, compare.Breached
		},
		" No pair: the peak of memory is too small.": func(d *compare.Decision) {
			d.Pairs, d.Change, d.Lost = 0, nil, []compare.LostPair{{Block: 1, Reason: "peak-hidden"}}
		},
	} {
		d := open
		change(&d)
		r.Decisions = []compare.Decision{holds, d}
		if got := report.Answer(r)[0]; !strings.Contains(got, "is undecided: ") || !strings.HasSuffix(got, want) {
			t.Errorf("%q, want the end %q", got, want)
		}
		f, _ := report.Lookup("decision", report.Options{})
		var b bytes.Buffer
		must.OK(t, f.Write(&b, r))
		if first, _, _ := strings.Cut(b.String(), "\n"); !strings.Contains(first, "is undecided: ") {
			t.Errorf("the first line is %q", first)
		}
	}
}

// Gates, remarks and warnings have treatments by name: identifiers are for files.
func TestNamesOfTreatmentsInGates(t *testing.T) {
	r := analyzed(t, answertest.TwoRates())
	for _, rate := range []string{"100", "1000"} {
		r.Decisions = append(r.Decisions, compare.Decision{Gate: "error_ratio < 1%", Metric: metric.ErrorRatio, Treatment: "envoy-rate" + rate, Baseline: "none-rate" + rate, Outcome: compare.Undecided, Pairs: 4, Max: 4,
			Doubts: []string{"outlier-block: block 3 of envoy-rate" + rate}, Lost: []compare.LostPair{{Block: 1, Treatment: "envoy-rate" + rate, Reason: "rate-missed", Message: "late"}}})
	}
	r.Configurations = []answer.Configuration{{A: "none-rate100", B: "envoy-rate100"}}
	r.Warnings = append(r.Warnings, figures.Warning{Code: "outlier-block", Message: "block 3 of envoy-rate1000 differs from none-rate1000"})
	identifier := regexp.MustCompile(`(?:^|[^0-9A-Za-z-])(?:envoy|none)-rate1`)
	for format, want := range map[string][]string{
		"decision": {"envoy (rate 1000) against no mesh (rate 1000)", "(envoy (rate 100): late)", "block 3 of envoy (rate 1000) differs from no mesh (rate 1000)"},
		"text":     {"no mesh (rate 100) of envoy (rate 100)", "Configuration of no mesh (rate 100) and envoy (rate 100)", "block 3 of envoy (rate 1000). Without this doubt", "fewer answers than the rate (envoy"},
		"comment":  {"What differs between no mesh (rate 100) and envoy (rate 100):"}, "junit": {`classname="envoy (rate 100)"`}, "markdown": {"envoy (rate 1000)"},
	} {
		f, _ := report.Lookup(format, report.Options{All: true, Width: 2000})
		var b bytes.Buffer
		must.OK(t, f.Write(&b, r))
		got := strings.Join(strings.Fields(strings.ReplaceAll(b.String(), "\\", "")), " ")
		must.Contain(t, got, want...)
		if found := identifier.FindAllString(got, -1); found != nil {
			t.Errorf("%s: %q in\n%s", format, found, b.String())
		}
	}
	for _, line := range report.Answer(r) {
		if identifier.MatchString(line) {
			t.Errorf("%s", line)
		}
	}
}

func TestDecisionOfARunWithoutGates(t *testing.T) {
	for format, want := range map[string]string{"decision": "No gates", "junit": `tests="0"`} {
		f, _ := report.Lookup(format, report.Options{})
		var b bytes.Buffer
		if err := f.Write(&b, &answer.Report{}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %v, %q", format, err, b.String())
		}
	}
}

// If the version of a program differs, its path in the cache is not a further difference. Arguments are.
func TestConfigurationLinesOfTwoVersions(t *testing.T) {
	c := answer.Configuration{A: "envoy-a", B: "envoy-b", Versions: [2]string{"1.39.3", "1.40.0"}, Differences: []effective.Difference{
		{Path: "command line", A: "/cache/envoy-1.39.3/envoy", B: "/cache/envoy-1.40.0/envoy", Files: []string{"echo-0"}},
		{Path: "command line", A: "--concurrency 1", B: "--concurrency 2", Files: []string{"load"}}}}
	want := "program: 1.39.3 → 1.40.0\narguments: --concurrency 1 → --concurrency 2 (load)"
	if got := strings.Join(report.ConfigurationLines(c), "\n"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	c.Versions[1] = c.Versions[0] // two builds of one version
	if got := report.ConfigurationLines(c); len(got) != 2 || !strings.Contains(got[0], "/cache/envoy-1.40.0/envoy") {
		t.Errorf("%q", got)
	}
}
