package report

import (
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// The line below the first result is the main doubt about it: the heaviest warning that concerns it.
func TestMainDoubt(t *testing.T) {
	few := figures.Warning{Code: "too-few-requests", Message: "latency_ms/p99 has 90 requests"}
	late := figures.Warning{Code: "generator-late", Trials: 8, Message: "the generator sent late"}
	unequal := figures.Warning{Code: "unequal-meshes", Message: "the meshes have different features: reference lacks mutual TLS"}
	throttled := figures.Warning{Code: "throttled", Trials: 6, Message: "throttled by CPU limits: load-0/load 45.0 % of the time (4.5s), echo-0/app 30.1 % of the time (3s) (trial 2-envoy, for one)"}
	turns := figures.Warning{Code: "not-interleaved", Message: "the treatments (2) were measured one after another"}
	for _, c := range []struct {
		name, want, title string
		warnings          []figures.Warning
	}{
		{"none that matters", "", "Too few requests for a high percentile", []figures.Warning{few}},
		{"late, not about a highest rate", "The load generator sent late in 8 of 12 trials: response times may contain its delay.", "The generator sent late", []figures.Warning{late}},
		{"throttled", "CPU limits stopped load-0/load 45.0 % of the time, echo-0/app 30.1 % of the time in 6 of 12 trials: response times contain the pauses.", "CPU limits stopped containers", []figures.Warning{unequal, throttled}},
		{"a gateway without keep-alive", "Connections that the gateway opens to the application: 1 a request.", "A check has a caution", []figures.Warning{unequal,
			{Code: "verified-with-caution", Trials: 4, Message: "connections that the gateway opens to the application: 1 a request"}}},
		{"unequal", "Unequal work: reference lacks mutual TLS.", "Features differ between meshes", []figures.Warning{few, unequal}},
		{"the heaviest first", "The treatments were measured one after another: the differences include every other change over that time.", "Measured one after another", []figures.Warning{few, unequal, turns}},
	} {
		r := reportOf(t, small(nil))
		before := Answer(r)
		r.Warnings = c.warnings
		got := Answer(r)
		if c.want == "" && !slices.Equal(got, before) || c.want != "" && (len(got) != len(before)+1 || got[1] != c.want) {
			t.Errorf("%s: %q, want %q below the first line", c.name, got, c.want)
		}
		if title := WarningTitle(r); title != c.title {
			t.Errorf("%s: title %q, want %q", c.name, title, c.title)
		}
	}
	if got, want := doubtWords(newView(&answer.Report{Count: compare.Count{Planned: 12}}), late, generatorLimit, nil), "The load generator sent late in 8 of 12 trials: the highest rates may be the generator's."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r := reportOf(t, small(nil))
	r.Warnings, r.Count.Blocks = nil, 3
	if got := Answer(r); got[1] != "Only three repetitions, too few for small differences: measure more blocks." {
		t.Errorf("%q", got)
	}
	r.Count.Blocks, r.Treatments[1].N = 4, 3
	r.Warnings = []figures.Warning{late, unequal}
	want := []string{"Unequal work: reference lacks mutual TLS.",
		"The load generator sent late in 8 of 12 trials: response times may contain its delay. Only three repetitions of some treatments, too few for small differences: measure more blocks."}
	if got := Answer(r); !slices.Equal(got[1:3], want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A doubt about other treatments than those of the first result is not beside it, and of one about several the others are left out.
func TestDoubtIsAboutTheResult(t *testing.T) {
	treatment := func(id, base string) compare.Treatment {
		return compare.Treatment{ID: id, Baseline: base, N: 8, Factors: plan.Factors{"mesh": id}}
	}
	trials := func(late string) (all []figures.Trial) {
		for _, id := range []string{"none", "envoy", "envoy-plaintext"} {
			trial := figures.Trial{Treatment: id, Valid: true}
			if id == late {
				trial.Warnings = []figures.Warning{{Code: "generator-late"}}
			}
			all = append(all, trial)
		}
		return all
	}
	unequal := func(parts string) figures.Warning {
		return figures.Warning{Code: "unequal-meshes", Message: "the meshes have different features: " + parts}
	}
	drifts := func(id string) figures.Warning {
		return figures.Warning{Code: "effect-drifts", Message: "ratios to the baseline change over the run: " + id + " (correlation 0.9, p 0.001)"}
	}
	late := figures.Warning{Code: "generator-late", Trials: 1, Message: "the generator sent late (trial 003-envoy-b1, for one)"}
	same := figures.Warning{Code: "treatments-same", Message: "envoy and envoy-plaintext had the same effective configuration: their difference is noise"}
	for name, c := range map[string]struct {
		gate, late string
		warning    figures.Warning
		want       string
	}{
		"another's feature":  {"envoy", "", unequal("envoy-plaintext lacks mutual TLS"), ""},
		"its feature":        {"envoy-plaintext", "", unequal("envoy lacks telemetry; envoy-plaintext lacks mutual TLS"), "Unequal work: envoy-plaintext lacks mutual TLS."},
		"another's drift":    {"envoy", "", drifts("envoy-plaintext"), ""},
		"its drift":          {"envoy", "", drifts("envoy"), "Ratios to the baseline change over the run: envoy."},
		"another's late":     {"envoy", "envoy-plaintext", late, ""},
		"its baseline's":     {"envoy", "none", late, "The load generator sent late in 1 of 24 trials: response times may contain its delay."},
		"of both, one alone": {"envoy", "", same, ""},
	} {
		r := &answer.Report{Method: compare.Paired, Count: compare.Count{Planned: 24, Used: 24, Blocks: 8}, Trials: trials(c.late), Warnings: []figures.Warning{c.warning},
			Treatments: []compare.Treatment{treatment("none", ""), treatment("envoy", "none"), treatment("envoy-plaintext", "none")},
			Decisions:  []compare.Decision{{Gate: "cpu_us_per_request/total < +5%", Metric: answerCost, Treatment: c.gate, Baseline: "none", Outcome: compare.Holds, Change: interval(1, 0.5), Unit: "%"}}}
		v := newView(r)
		got := ""
		if all := doubtsOf(v, firstResult(results(v))); all != nil {
			got = all[0].Sentence
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		valid := slices.Contains(Answer(r), "All 24 trials are valid.")
		if valid != (c.want == "") {
			t.Errorf("%s: all valid: %v in %q", name, valid, Answer(r))
		}
		if c.warning.Code == "effect-drifts" {
			if doubted := len(warningLines(r)) > 0; doubted != (c.want != "") {
				t.Errorf("%s: the gates have its warning: %v", name, doubted)
			}
		}
	}
}

// A result without a verdict has the command that brings one, and the trials without the figure are counted.
func TestCureOfWithheldCPU(t *testing.T) {
	deferred := figures.Warning{Code: "work-deferred", Withholds: true, Metrics: []string{metric.CPUPerRequest}, Hint: "have a longer warm-up: `tare run FILE --set phases.warmup=9s`"}
	r := &answer.Report{Method: compare.Paired, Directory: "runs/x", Count: compare.Count{Planned: 8, Used: 8, Blocks: 4}, Warnings: []figures.Warning{deferred},
		Treatments:  []compare.Treatment{{ID: "none", Factors: plan.Factors{"mesh": "none"}}, {ID: "envoy", Baseline: "none", Factors: plan.Factors{"mesh": "envoy"}}},
		Comparisons: []compare.Comparison{{Treatment: "envoy", Baseline: "none", Metric: answerCost, Verdict: compare.Insufficient}}}
	for block := 1; block <= 4; block++ {
		of := figures.Trial{Treatment: "none", Block: block, Valid: true, Metrics: map[string]float64{answerCost: 100}}
		r.Trials = append(r.Trials, of)
		if of.Treatment = "envoy"; block > 2 {
			of.Metrics, of.Warnings = nil, []figures.Warning{deferred}
		}
		r.Trials = append(r.Trials, of)
	}
	want := []string{"envoy: no verdict on CPU per request: 2 of 4 blocks withheld: requests defer work. For a verdict: have a longer warm-up: `tare run runs/x/experiment.yaml --set phases.warmup=9s`.",
		"8 of 8 trials used. CPU per request of 2 of 8 trials is withheld: requests defer work."}
	if got := Answer(r); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A soak begins with the memory of the sidecars and its slope, also where it grows by little.
func TestSoakBeginsWithMemory(t *testing.T) {
	memory := metric.Of(metric.Memory, string(metric.Data))
	r := &answer.Report{Method: compare.Paired, Confidence: 0.95, Count: compare.Count{Planned: 2, Used: 2, Blocks: 1},
		Treatments: []compare.Treatment{{ID: "none", N: 1, Factors: plan.Factors{"mesh": "none"}}, {ID: "envoy", N: 1, Baseline: "none", Sidecars: 2, Factors: plan.Factors{"mesh": "envoy"}}},
		Trials:     []figures.Trial{{Treatment: "envoy", Trends: []figures.Trend{{Metric: memory, Points: [][2]float64{{0, 61}, {58, 61.3}}}}}},
		Trends:     []answer.Trend{{Treatment: "none", Metric: answerMedian, Verdict: answer.Steady}, {Treatment: "envoy", Metric: memory, Last: 61.27, PerHour: *interval(22, 18), Verdict: answer.Growing}}}
	want := []string{"Two envoy sidecars: 61.3 MiB of memory at the end of a soak of 1m, +22 ±18 MiB an hour: growing.",
		"At the end of a soak of 1m no other figure is shown to grow by over 2.0 % in its second half: 1 of 2 trends are steady."}
	if got := Answer(r); len(got) < 2 || !slices.Equal(got[:2], want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A treatment without a valid trial is named: its absence is no result.
func TestUnmeasured(t *testing.T) {
	s := small(func(r *result.Record) {
		if r.Treatment == "envoy" {
			r.Error, r.Valid = "deploy envoy: it ended", false
		}
	})
	r := reportOf(t, s)
	if got, want := unmeasured(newView(r)), "Not measured, since no trial is valid: envoy."; len(got) != 1 || got[0].Sentence != want {
		t.Errorf("%+v, want %q", got, want)
	}
	if got := unmeasured(newView(reportOf(t, small(nil)))); got != nil {
		t.Errorf("all are measured: %+v", got)
	}
}

// A share has its interval within 0 and 100 %, and a run about failures has no smallest difference in CPU.
func TestWideShares(t *testing.T) {
	of := func(estimate, half float64) map[string]compare.Estimate {
		return map[string]compare.Estimate{metric.ErrorRatio: {Interval: around(estimate, half), N: 3}, metric.Recovery: {N: 3}}
	}
	r := &answer.Report{Method: compare.Paired, Count: compare.Count{Planned: 6, Used: 6},
		Treatments:  []compare.Treatment{{ID: "none", Factors: plan.Factors{"mesh": "none"}, Metrics: of(0.51, 0.03)}, {ID: "envoy", Factors: plan.Factors{"mesh": "envoy"}, Metrics: of(0.74, 0.99)}},
		Comparisons: []compare.Comparison{{Treatment: "envoy", Baseline: "none", Metric: answerCost, Smallest: &compare.Smallest{Interval: stats.Interval{Estimate: 216}}}}}
	want := []string{"Requests that failed: 51 % (48 to 54) without a mesh, 74 % (0 to 100) with envoy.", "All 6 trials are valid."}
	if got := Answer(r); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// An imported comparison has one boundary: the data plane's CPU, and the whole cluster if it contradicts.
func TestOneBoundary(t *testing.T) {
	data, cost := metric.Of(metric.CPUCores, string(metric.Data)), answerCost
	r := &answer.Report{Method: compare.Unpaired, Count: compare.Count{Planned: 12, Used: 12},
		Warnings: []figures.Warning{{Code: "not-interleaved", Message: "the treatments (2) were measured one after another"}}}
	for _, at := range []struct{ rate, ambient, linkerd float64 }{{60, 0.31, 0.155}, {600, 2.4, 1.5}, {1200, 5.25, 2.5}} {
		id := Level(at.rate)
		of := func(cores float64) map[string]compare.Estimate {
			return map[string]compare.Estimate{data: {Interval: stats.Interval{Estimate: cores}, N: 3}, cost: {Interval: stats.Interval{Estimate: 1000 * cores}, N: 3}}
		}
		base, other := plan.Factors{"mesh": "linkerd", "rate": at.rate}, plan.Factors{"mesh": "ambient", "rate": at.rate}
		r.Treatments = append(r.Treatments, compare.Treatment{ID: "linkerd-" + id, Factors: base, Metrics: of(at.linkerd)},
			compare.Treatment{ID: "ambient-" + id, Baseline: "linkerd-" + id, Factors: other, Metrics: of(at.ambient)})
		for _, name := range []string{data, cost} {
			r.Comparisons = append(r.Comparisons, compare.Comparison{Treatment: "ambient-" + id, Baseline: "linkerd-" + id, Factors: other, Against: base, Metric: name,
				Difference: interval(100, 1), Ratio: interval(at.ambient/at.linkerd, 0.01), N: 3, Verdict: compare.Higher})
		}
	}
	want := []string{"The data plane of ambient uses 1.60 to 2.10 times as much CPU as linkerd's (higher at all rates).",
		"The treatments were measured one after another: the differences include every other change over that time.", "12 of 12 trials used."}
	if got := Answer(r); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// The whole cluster contradicts it, in the same sentence.
	for i := range r.Treatments {
		r.Treatments[i].Metrics[metric.Of(metric.CPUCores, clusterPart)] = compare.Estimate{Interval: stats.Interval{Estimate: 9}, N: 3}
	}
	for i, verdict := range []compare.Verdict{compare.Lower, compare.NotShown, compare.Higher} {
		c := r.Comparisons[2*i]
		c.Metric, c.Verdict, c.Ratio = metric.Of(metric.CPUCores, clusterPart), verdict, interval([]float64{0.93, 1.01, 1.34}[i], 0.01)
		r.Comparisons = append(r.Comparisons, c)
	}
	want[0] += " The whole cluster uses 0.93 to 1.34 times as much (lower at 60; no difference shown at 600; higher at 1200)."
	if got := Answer(r); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTargetWords(t *testing.T) {
	for expect, want := range map[string]string{
		"success_ratio >= 0.999 during fault": "at least 99.9 % successful requests during fault",
		"error_ratio == 0":                    "no failed requests",
		"error_ratio < 1% from 10s to 20s":    "below 1 % failed requests from 10s to 20s",
		"status(5xx) == 0":                    "no 5xx responses",
		"lost <= 3":                           "at most 3 failed requests",
		"p99.9 < 250ms after 5s":              "response time p99.9 below 250 ms after 5s",
		"mean < 1.5s":                         "mean response time below 1.5 s",
		"rate >= 480":                         "at least 480 answers per second",
		"recovers within 3s of heal":          "recovers within 3s of heal",
		"change.last_old.p99 < 1s":            "change.last_old.p99 < 1s",
	} {
		if got := targetWords(expect); got != want {
			t.Errorf("%s: %q, want %q", expect, got, want)
		}
	}
}
