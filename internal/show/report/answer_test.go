package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/load/capacity"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// answerOf is the answer of a study with one treatment, its verdicts changed.
func answerOf(t *testing.T, change func(*compare.Comparison)) string {
	t.Helper()
	s := small(nil)
	r := reportOf(t, s)
	for i := range r.Comparisons {
		if c := &r.Comparisons[i]; !c.Control {
			change(c)
		}
	}
	return strings.Join(Answer(r), "\n")
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*compare.Comparison)
		has, not []string
	}{
		{"higher", func(*compare.Comparison) {},
			[]string{"envoy uses 189 ±11 µs of CPU a request; the program itself uses 6.8 ±1.5 µs more: ", " µs without a mesh, ", " µs with it (", " times).", "The median response goes from 0.2", "Memory of the data plane: 48.0 ±0.3 MiB more.", "All 12 trials are valid."}, []string{"saves", "MiB less"}},
		{"lower", func(c *compare.Comparison) {
			if c.Difference == nil || !c.Difference.Known() {
				return
			}
			c.Verdict = compare.Lower
			d := *c.Difference
			low, high := -*d.High, -*d.Low
			d.Estimate, d.Low, d.High = -d.Estimate, &low, &high
			c.Difference = &d
		}, []string{"envoy saves ", "MiB less."}, []string{"adds", "uses", "(-", "to -"}},
		{"not shown", func(c *compare.Comparison) { c.Verdict = compare.NotShown },
			[]string{"envoy uses 189 ±11 µs of CPU a request; the program itself changed by +6.84 µs, not distinguishable.", "No difference in the median response is shown (ratio 3.04x)."}, []string{"adds", "Memory", "±1.5"}},
		{"around zero", func(c *compare.Comparison) {
			c.Verdict = compare.NotShown
			if c.Difference != nil {
				low, high := -8e-5, 7e-5
				c.Difference = &stats.Interval{Estimate: -1e-5, Low: &low, High: &high}
			}
		}, []string{"in CPU per request is shown, compared with a run without a mesh: -0.00", " minutes would halve this interval: `tare run ", "/experiment.yaml --set blocks=16`."}, []string{"adjust"}},
		{"insufficient", func(c *compare.Comparison) { c.Verdict = compare.Insufficient },
			[]string{"envoy: too few trials for a verdict on CPU per request."}, []string{"adds", "median"}},
	} {
		got := answerOf(t, c.change)
		for _, want := range c.has {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, got)
			}
		}
		for _, refused := range c.not {
			if strings.Contains(got, refused) {
				t.Errorf("%s: %q in\n%s", c.name, refused, got)
			}
		}
	}
}

// A number of sidecars that only the treatment has is part of its sentence.
func TestAnswerWithSidecars(t *testing.T) {
	r := reportOf(t, small(nil))
	for i := range r.Treatments {
		if r.Treatments[i].Factors["mesh"] == "envoy" {
			r.Treatments[i].Sidecars = 2
		}
	}
	if lines := Answer(r); !strings.HasPrefix(lines[0], "Two envoy sidecars use ") {
		t.Errorf("%q", lines)
	}
	for i := range r.Treatments {
		r.Treatments[i].Sidecars = 2
	}
	if lines := Answer(r); !strings.HasPrefix(lines[0], "envoy uses ") {
		t.Errorf("%q", lines)
	}
}

// Other answers are other work: the warning precedes every figure.
func TestAnswerAfterOtherAnswers(t *testing.T) {
	r := reportOf(t, small(nil))
	r.Warnings = append([]figures.Warning{{Code: answer.AnswersDiffer, Message: "GET / has other answers in envoy (5 bytes) than in none (4 bytes)"}}, r.Warnings...)
	want := "Warning: GET / has other answers in envoy (5 bytes) than in none (4 bytes). The figures compare different work."
	if lines := Answer(r); len(lines) < 3 || lines[0] != want || !strings.HasPrefix(lines[1], "envoy uses") {
		t.Errorf("%q", lines)
	}
}

func TestAnswerWithCapacity(t *testing.T) {
	s := small(func(r *result.Record) {
		found := capacity.Found{Objective: "p99 < 50ms", Rate: 9870 + 10*float64(r.Block), Low: 9000, High: 10000}
		if r.Treatment == "envoy" {
			found.Rate /= 3
		}
		r.Load.Capacity = &found
	})
	for i := range s.Treatments {
		s.Treatments[i].Factors["rate"] = experiment.RateLevel{Capacity: experiment.Capacity{Objective: "p99 < 50ms"}}.String()
	}
	r := reportOf(t, s)
	for i := range r.Comparisons {
		if c := r.Comparisons[i]; c.Metric == metric.Capacity {
			r.Comparisons[i].Verdict = compare.NotShown
		}
	}
	if lines := Answer(r); !strings.Contains(lines[0], "no difference is shown (ratio 0.333x). About ") {
		t.Errorf("%q", lines)
	}
	lines := Answer(reportOf(t, s))
	if len(lines) < 3 || !strings.HasPrefix(lines[0], "With envoy the highest rate is 67 % lower: 3300 requests/s instead of 9900 without a mesh, at p99 < 50ms.") || !strings.Contains(lines[1], "of CPU a request") {
		t.Errorf("%q", lines)
	}
}

// Of several treatments there is no one smallest difference, and each A/A pair has its own. Differences of shares
// are in percentage points.
func TestFiguresOfSeveral(t *testing.T) {
	smallest := func(us float64) *compare.Smallest { return &compare.Smallest{Interval: stats.Interval{Estimate: us}} }
	plus := around(0.28, 0.02)
	r := &answer.Report{Treatments: []compare.Treatment{{ID: "none", Factors: plan.Factors{"mesh": "none"}}, {ID: "envoy", Baseline: "none", Factors: plan.Factors{"mesh": "envoy"}},
		{ID: "istio", Baseline: "none", Factors: plan.Factors{"mesh": "istio"}}},
		Comparisons: []compare.Comparison{
			{Treatment: "istio", Factors: plan.Factors{"mesh": "istio"}, Metric: answerCost, Smallest: smallest(57)},
			{Treatment: "envoy", Factors: plan.Factors{"mesh": "envoy"}, Metric: answerCost, Smallest: smallest(8.1)},
			{Treatment: "envoy", Factors: plan.Factors{"mesh": "envoy"}, Metric: metric.ErrorRatio, Difference: &plus},
		},
		Floor: []compare.Floor{{Treatment: "none-control", Factors: plan.Factors{"mesh": "none"}, Metric: answerCost, Difference: interval(0, 1)},
			{Treatment: "envoy-control", Factors: plan.Factors{"mesh": "envoy"}, Metric: answerCost, Difference: interval(2, 1)}}}
	if got := SmallestWords(r); got != "" {
		t.Error(got)
	}
	if got := FloorWords(r); !slices.Equal(got, []string{"0.0 ±1.0 µs (no mesh)", "+2.0 ±1.0 µs (envoy)"}) {
		t.Errorf("%q", got)
	}
	if got := WordsOf(r).Comparisons[2]; got.Difference != "+28.0 points" || got.Interval != "±2.0" {
		t.Errorf("%+v", got)
	}
	d := compare.Decision{Metric: metric.ErrorRatio, Unit: "1", Change: &plus}
	if got := ChangeWords(d); got != "+28 points (+26 to +30)" {
		t.Error(got)
	}
	r.Comparisons = r.Comparisons[1:]
	if got := SmallestWords(r); got != "Differences in CPU per request of less than 8.1 µs may be missed" {
		t.Error(got)
	}
}

func interval(estimate, half float64) *stats.Interval {
	i := around(estimate, half)
	return &i
}

// Two numbers have as many digits as show that they differ.
func TestApart(t *testing.T) {
	for _, c := range []struct {
		v, w float64
		want string
	}{
		{0.0721, 0.634, "0.072 0.63"}, {1.07, 1.124, "1.07 1.12"}, {1.0701, 1.0712, "1.070 1.071"}, {2, 2, "2.000 2.000"}, {0, 120, "0.0 120"},
	} {
		v, w := apart(c.v, c.w)
		if got := v + " " + w; got != c.want {
			t.Errorf("%g and %g: %s, want %s", c.v, c.w, got, c.want)
		}
	}
}

func TestAmountWithin(t *testing.T) {
	for _, c := range []struct {
		estimate, half float64
		want           string
	}{
		{494, 34, "494 ±34 µs"},
		{-494, 34, "494 ±34 µs"},
		{134.93, 0.36, "134.9 ±0.4 µs"},
		{28.42, 27.61, "28.4 ±27.6 µs"},
		{135, 0, "135 µs"},
	} {
		if s := amountWithin(around(c.estimate, c.half), quantity{unit: "µs", scale: 1}); s != c.want {
			t.Errorf("%v ± %v: %q, want %q", c.estimate, c.half, s, c.want)
		}
	}
}

// One or two results are sentences, the largest shown one first. More are a ranking: the least first, those without a verdict last.
func TestRanking(t *testing.T) {
	of := func(name, base string, size float64, verdict compare.Verdict) row {
		return row{Claim: Claim{Subject: name, Relation: verdict, Sentence: name + " adds."}, name: name, base: base, size: size, short: signed(size, 0) + " µs"}
	}
	all := []row{of("a", "no mesh", 10, compare.Higher), of("b", "no mesh", 0, compare.Insufficient), of("c", "no mesh", 30, compare.Higher), of("d", "c", -20, compare.Lower)}
	var got []string
	v := view{r: &answer.Report{Confidence: 0.95}}
	for _, c := range ranking(v, slices.Clone(all), func([]row) Claim { return Claim{Sentence: "CPU:"} }) {
		got = append(got, c.Sentence)
	}
	if want := []string{"CPU:", "d: -20 µs", "a: +10 µs (against no mesh)", "c: +30 µs (against no mesh)", "b: 0 µs (against no mesh)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := ranking(v, []row{all[0], all[2]}, nil); len(got) != 2 || got[0].Sentence != "c adds." {
		t.Errorf("of two: %+v", got)
	}
	// The differences of b from a in the four blocks have a mean of 0.15 and a standard deviation of 0.29. All of c's from b are over 27.
	all = []row{of("a", "no mesh", 11, compare.Higher), of("b", "no mesh", 11.2, compare.Higher), of("c", "no mesh", 41, compare.Higher)}
	for i, values := range [][]float64{{10, 11, 10, 12}, {10.5, 10.8, 10.2, 12.1}, {40, 41.2, 40.1, 41.9}} {
		all[i].values = map[int]float64{}
		for block, value := range values {
			all[i].values[block+1] = value
		}
	}
	got = sentencesOf(ranking(v, all, func([]row) Claim { return Claim{Sentence: "CPU:"} }))
	if want := []string{"CPU:", "a: +11 µs", "b: +11 µs; not distinguishable from a", "c: +41 µs"}; !slices.Equal(got, want) {
		t.Errorf("neighbours: %q, want %q", got, want)
	}
	// Without any verdict there is no least one: each reason is there once, with its cure.
	for i, reason := range []string{"no verdict: 2 of 4 blocks failed", "no verdict: 2 of 4 blocks failed", "too few trials for a verdict"} {
		all[i].Form, all[i].Relation, all[i].Reason, all[i].cure = noVerdict, compare.Insufficient, reason, []string{" For a verdict: wait.", "", ""}[i]
	}
	got = sentencesOf(ranking(v, all, nil))
	if want := []string{"a and b: no verdict: 2 of 4 blocks failed. For a verdict: wait. c: too few trials for a verdict."}; !slices.Equal(got, want) {
		t.Errorf("without verdicts: %q, want %q", got, want)
	}
	for i := range all { // figures of too few trials have a form of their own
		all[i].Form, all[i].Reason, all[i].why, all[i].cure = timeNone, "too few trials for a verdict", "too few trials for a verdict on the time", ""
	}
	if got, want := sentencesOf(ranking(v, all, nil)), []string{"a, b and c: too few trials for a verdict on the time."}; !slices.Equal(got, want) {
		t.Errorf("without times: %q, want %q", got, want)
	}
}

// A number is not separated from its unit, and a command is on one line.
func TestUnitsStay(t *testing.T) {
	if got, want := commands(words("write `tare run x --set 'a=[1, 2]'`, or `wait")), []string{"write", "`tare run x --set 'a=[1, 2]'`,", "or", "`wait"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := words("goes to 12 µs (4 %), so"), []string{"goes", "to", "12 µs", "(4 %),", "so"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
