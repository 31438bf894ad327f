package report

import (
	"maps"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// sweepOf is a report of a baseline with 100 µs of CPU a request at every level, and of treatments with the differences given.
// Each interval is the difference ± half.
func sweepOf(factor string, levels []float64, half float64, added map[string][]float64) *answer.Report {
	r := &answer.Report{Method: compare.Paired, Count: compare.Count{Planned: 24, Used: 24}}
	estimate := func(us float64) map[string]compare.Estimate {
		return map[string]compare.Estimate{answerCost: {Interval: stats.Interval{Estimate: us}, N: 3}}
	}
	id := func(mesh string, level float64) string { return mesh + "-" + Level(level) }
	for _, level := range levels {
		r.Treatments = append(r.Treatments, compare.Treatment{ID: id("none", level), Factors: plan.Factors{"mesh": "none", factor: level}, Metrics: estimate(100)})
	}
	for _, mesh := range slices.Sorted(maps.Keys(added)) {
		q := compare.Question{ID: mesh, Factors: plan.Factors{"mesh": mesh}, Against: plan.Factors{"mesh": "none"}}
		mean := 0.0
		for i, level := range levels {
			us := added[mesh][i]
			mean += us / float64(len(levels))
			f := plan.Factors{"mesh": mesh, factor: level}
			r.Treatments = append(r.Treatments, compare.Treatment{ID: id(mesh, level), Baseline: id("none", level), Factors: f, Metrics: estimate(100 + us)})
			r.Comparisons = append(r.Comparisons, compare.Comparison{Treatment: id(mesh, level), Baseline: id("none", level), Factors: f, Metric: answerCost,
				Difference: interval(us, half), N: 3, Verdict: compare.Higher, Question: mesh})
			q.Treatments = append(q.Treatments, id(mesh, level))
		}
		q.Pooled = []compare.Pooled{{Metric: metric.Of(metric.CPUPerRequest, "total"), Difference: interval(mean, half), Verdict: compare.Higher}}
		r.Questions = append(r.Questions, q)
	}
	return r
}

// Levels that are alike, or cannot be distinguished, have a mean with both totals. Others have the first and the last level.
func TestLevelsInASentence(t *testing.T) {
	rates := []float64{100, 400, 1200}
	for _, c := range []struct {
		name, factor string
		half         float64
		added        []float64
		want         string
	}{
		{"alike", "rate", 20, []float64{210, 200, 190}, "envoy adds 200 ±20 µs of CPU to a request, on average over 3 rates: 100 µs without a mesh, 300 µs with it (3.0 times)."},
		{"falling", "rate", 20, []float64{800, 500, 300}, "envoy adds CPU to a request: 800 ±20 µs at 100 requests/s and 300 ±20 µs at 1200."},
		{"rising", "requestSize", 20, []float64{300, 500, 800}, "envoy adds CPU to a request: 300 ±20 µs at request size 100 B and 800 ±20 µs at 1200 B."},
		{"neither", "rate", 20, []float64{350, 410, 200}, "envoy adds CPU to a request: 350 ±20 µs at 100 requests/s and 200 ±20 µs at 1200."},
		{"noise in between", "rate", 40, []float64{350, 410, 200}, "envoy adds CPU to a request: 350 ±40 µs at 100 requests/s and 200 ±40 µs at 1200."},
		{"ends alike, not all", "rate", 120, []float64{700, 650, 360}, "envoy adds CPU to a request: 700 ±120 µs at 100 requests/s and 360 ±120 µs at 1200."},
		{"not shown to fall", "rate", 270, []float64{800, 500, 300}, "envoy adds 530 ±270 µs of CPU to a request, on average over 3 rates: 100 µs without a mesh, 630 µs with it (6.3 times)."},
	} {
		if got := Answer(sweepOf(c.factor, rates, c.half, map[string][]float64{"envoy": c.added})); len(got) == 0 || got[0] != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The cheapest treatment of one level is not the cheapest of another: the answer has both.
func TestCheapestByLevel(t *testing.T) {
	sizes := []float64{16, 1 << 14, 1 << 20}
	added := map[string][]float64{"rest": {253, 800, 13911}, "grpc": {582, 730, 3730}}
	want := []string{"Least CPU added to a request: at 16 B rest (253 µs); at 16 KiB grpc (730 µs); at 1 MiB grpc (3730 µs)."}
	if got := Answer(sweepOf("requestSize", sizes, 34, added)); len(got) != 2 || !slices.Equal(got[:1], want) {
		t.Errorf("%q, want %q", got, want)
	}
	// Those that cannot be distinguished are named together.
	added = map[string][]float64{"rest-tcp": {253, 720, 13911}, "rest-uds": {280, 750, 13950}, "grpc-tcp": {582, 730, 3730}, "grpc-uds": {570, 740, 3760}}
	want[0] = "Least CPU added to a request: at 16 B rest-tcp or rest-uds (253 to 280 µs); at 16 KiB no clear winner; at 1 MiB grpc-tcp or grpc-uds (3730 to 3760 µs)."
	if got := Answer(sweepOf("requestSize", sizes, 34, added)); len(got) == 0 || got[0] != want[0] {
		t.Errorf("%q, want %q", got, want[0])
	}
	// Intervals that overlap at one of the levels show no order.
	if got := Answer(sweepOf("requestSize", sizes, 170, added)); len(got) == 0 || got[0] == want[0] {
		t.Errorf("not shown at 16 B: %q", got)
	}
}

// The totals of a multiple are the means over the blocks with both treatments: a block that has one of them is left out.
func TestTotalsOfPairs(t *testing.T) {
	r := reportOf(t, small(nil))
	for i := range r.Trials {
		x := &r.Trials[i]
		if x.Metrics[answerCost] = map[string]float64{"none": 100, "envoy": 250}[x.Treatment] + 10*float64(x.Block); x.Block == 4 && x.Treatment == "envoy" {
			x.Valid = false
		}
	}
	v := newView(r)
	got := totalsOf(v, v.treatment("envoy"))
	if want := (totals{120, 270}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	by := func(us float64) stats.Interval { return stats.Interval{Estimate: us} }
	if words := got.words("envoy", "no mesh", by(150)); words != ": 120 µs without a mesh, 270 µs with it (2.2 times)" {
		t.Error(words)
	}
	if words := got.words("Two envoy sidecars", "no mesh", by(150)); words != ": 120 µs without a mesh, 270 µs with them (2.2 times)" {
		t.Error(words)
	}
	if words := (totals{1000, 1042}).words("ambient", "linkerd", by(42)); words != ": 1000.0 µs with linkerd, 1042.0 µs with ambient (1.04 times)" {
		t.Error(words)
	}
}
