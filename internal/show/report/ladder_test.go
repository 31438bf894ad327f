package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/stats"
)

func ladderReport() *answer.Report {
	of := func(estimate, half float64) *stats.Interval {
		low, high := estimate-half, estimate+half
		return &stats.Interval{Estimate: estimate, Low: &low, High: &high}
	}
	treatment := func(id string) compare.Treatment {
		return compare.Treatment{ID: id, Factors: plan.Factors{"mesh": id}, Metrics: map[string]compare.Estimate{answerCost: {Interval: *of(100, 1), Unit: "us", N: 6}}}
	}
	rest := 1.0
	return &answer.Report{Method: compare.Paired, Confidence: 0.95,
		Treatments: []compare.Treatment{treatment("none"), treatment("tcp"), treatment("mtls"), treatment("http")},
		Ladders: []compare.Ladder{{Steps: []string{"none", "tcp", "mtls", "http"}, Metrics: []compare.LadderMetric{{
			Metric: answerCost, Unit: "us", Sum: 151, Rest: &rest, N: 6, Whole: of(152, 4),
			Increments: []compare.Increment{
				{Treatment: "tcp", Before: "none", Difference: of(50.4, 2), N: 6, Verdict: compare.Higher},
				{Treatment: "mtls", Before: "tcp", Difference: of(-0.4, 2), N: 5, PairsLost: 1, Verdict: compare.NotShown},
				{Treatment: "http", Before: "mtls", Difference: of(101, 3), N: 6, Verdict: compare.Higher},
			},
		}}}},
	}
}

func TestLadderText(t *testing.T) {
	r := ladderReport()
	p := newPage(Options{}, false, "")
	ladderSection(text{page: p, view: newView(r)})
	const want = `Ladder: what each step adds to the one before it (mean ± half of the 95 % interval)
                      CPU/request
  step                  total, µs
  no mesh              100.0 ±1.0
  + tcp               +50.4 ±2.0*
  + mtls               -0.4 ±2.0
  + http             +101.0 ±3.0*
  all steps together    +152.0 ±4.0
  sum of the steps           +151.0
  rest                         +1.0
`
	got := p.text()
	for _, line := range strings.Split(strings.TrimSpace(want), "\n") {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(line), " ")) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
	if !strings.Contains(strings.Join(strings.Fields(got), " "), "what blocks without a step leave") {
		t.Errorf("the rest is not explained:\n%s", got)
	}
	low, high := -2.0, 4.0
	r.Ladders[0].Metrics[0].RestInterval = &stats.Interval{Estimate: 1, Low: &low, High: &high}
	p = newPage(Options{}, false, "")
	ladderSection(text{page: p, view: newView(r)})
	if got := strings.Join(strings.Fields(p.text()), " "); !strings.Contains(got, "rest +1.0 ±3.0") || !strings.Contains(got, "noise, if its interval contains zero") {
		t.Errorf("the rest has no interval:\n%s", p.text())
	}
	if lines := Answer(r); len(lines) == 0 || !strings.HasPrefix(lines[0], "All three features together add 152 µs of CPU to a request.") && !strings.HasPrefix(lines[0], "All three features together add 152 ±4 µs of CPU to a request:") || lines[1] != "The most expensive: http +101.0 ±3.0 µs, tcp +50.4 ±2.0 µs. Too small to measure here: mtls (at most 2.40 µs)." {
		t.Errorf("%q", lines)
	}
	// Of two rates each sentence has its own.
	two := ladderReport()
	two.Treatments[0].Factors["rate"], two.Treatments[1].Factors["rate"] = 100., 200.
	two.Ladders = append(two.Ladders, two.Ladders[0])
	two.Ladders[0].Factors, two.Ladders[1].Factors = plan.Factors{"rate": 100.}, plan.Factors{"rate": 200.}
	for i, rate := range []string{"100", "200"} {
		if lines := Answer(two); !strings.HasPrefix(lines[i], "All three features together (rate "+rate+") add 152 ±4 µs") {
			t.Errorf("%q", lines)
		}
	}
	// A whole without a verdict is none.
	r.Comparisons = []compare.Comparison{{Treatment: "http", Baseline: "none", Metric: answerCost, Verdict: compare.NotShown}}
	if lines := Answer(r); !strings.HasPrefix(lines[0], "All three features together: no difference in CPU per request is shown, compared with a run without a mesh") {
		t.Errorf("%q", lines)
	}
	r.Comparisons[0].Verdict = compare.Insufficient
	if lines := Answer(r); !strings.HasPrefix(lines[0], "All three features together: too few trials") {
		t.Errorf("%q", lines)
	}
	// Without a comparison of the last step with the first, the interval has the verdict.
	r.Comparisons = nil
	for _, c := range []struct {
		half float64
		n    int
		want string
	}{{4, 6, "All three features together add 152 "}, {160, 6, "All three features together: no difference"}, {4, 2, "All three features together: too few trials for a verdict on CPU per request (+152"}} {
		of := stats.Interval{Estimate: 152, Low: new(152 - c.half), High: new(152 + c.half)}
		if r.Ladders[0].Metrics[0].Whole, r.Ladders[0].Metrics[0].N = &of, c.n; !strings.HasPrefix(Answer(r)[0], c.want) {
			t.Errorf("±%g of %d: %q", c.half, c.n, Answer(r)[0])
		}
	}
	r.Ladders[0].Metrics[0].N = 6
	var markdown bytes.Buffer
	if err := writeMarkdown(&markdown, r, Options{}); err != nil || !strings.Contains(markdown.String(), "| + http | +101.0 ±3.0\\* |") {
		t.Errorf("%v\n%s", err, markdown.String())
	}
}
