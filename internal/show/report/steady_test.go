package report

import (
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// variants are a program and the same program with an agent at 50 requests/s.
func variants(all ...compare.Comparison) *answer.Report {
	of := func(id, baseline string) compare.Treatment {
		return compare.Treatment{ID: id, Baseline: baseline, Factors: plan.Factors{"application": id, "rate": 50.0}, N: 4, Metrics: map[string]compare.Estimate{dataCost: {N: 4}}}
	}
	for i := range all {
		all[i].Treatment, all[i].Baseline = "agent", "plain"
	}
	return &answer.Report{Method: compare.Paired, Confidence: 0.95, Count: compare.Count{Planned: 8, Used: 8, Blocks: 4}, Treatments: []compare.Treatment{of("plain", ""), of("agent", "plain")}, Comparisons: all}
}

func compared1(name string, estimate, half float64, verdict compare.Verdict) compare.Comparison {
	return compare.Comparison{Metric: name, Difference: interval(estimate, half), Verdict: verdict, N: 4}
}

// An agent's own CPU is in cores: at a low rate its CPU of a request would be any number. The CPU of the program's requests is apart.
func TestSteadyWorkIsInCores(t *testing.T) {
	app := metric.Of(metric.CPUPerRequest, "app")
	beside := variants(compared1(answerCost, 941, 30, compare.Higher), compared1(dataCost, 820, 20, compare.Higher), compared1(app, 120, 30, compare.Higher),
		compared1(metric.Of(metric.CPUCores, "data"), 0.041, 0.001, compare.Higher), compared1(metric.Of(metric.IdleCPU, "data"), 0.031, 0.002, compare.Higher))
	if got, want := Claims(beside)[0].Sentence, "agent uses 41.0 ±1.0 millicores beside the program at 50 requests/s (31.0 ±2.0 without requests); the program itself uses 120 ±30 µs of CPU a request more."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	within := func() []compare.Comparison {
		return []compare.Comparison{compared1(answerCost, 941, 30, compare.Higher), compared1(metric.Of(metric.IdleCPU, "total"), 0.031, 0.002, compare.Higher), compared1(metric.Of(metric.IdlePerRequest, "total"), 620, 40, compare.Higher)}
	}
	inside := variants(within()...)
	for block := range 4 { // 1841 - 640 - (900 - 20) is 321
		for _, x := range []struct {
			id        string
			all, idle float64
		}{{"plain", 900, 20}, {"agent", 1841 + float64(block), 640 - float64(block)}} {
			inside.Trials = append(inside.Trials, figures.Trial{Treatment: x.id, Block: block, Valid: true, Metrics: map[string]float64{answerCost: x.all, metric.Of(metric.IdlePerRequest, "total"): x.idle}})
		}
	}
	if got, want := Claims(inside)[0].Sentence, "agent uses 31.0 ±2.0 millicores more without requests; for a request at 50 requests/s it uses 324 ±4 µs more CPU."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	little := variants(compared1(answerCost, 941, 30, compare.Higher), compared1(metric.Of(metric.IdleCPU, "total"), 0.001, 0.0002, compare.Higher), compared1(metric.Of(metric.IdlePerRequest, "total"), 20, 4, compare.Higher))
	if got, want := Claims(little)[0].Sentence, "agent adds 941 ±30 µs of CPU to a request at 50 requests/s."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
