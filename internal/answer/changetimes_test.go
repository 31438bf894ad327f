package answer_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/answertest"
	"github.com/tare-mesh/tare/test/must"
)

// Two changes of each trial are too few for a median: their range is in the report. A median has its bounds over all
// trials, and the time of a change that had not ended has no upper end.
func TestTimesOfFewChanges(t *testing.T) {
	s := answertest.Quickstart()
	s.Blocks = 3
	s.Change = func(r *result.Record) {
		if r.Treatment == "none" {
			r.Changes = []result.Change{{Kind: metric.ProxyRestarted}, {Kind: metric.RouteChanged}}
		}
		if r.Treatment != "envoy" {
			return
		}
		kinds := slices.Repeat([]string{metric.PolicyDenied, metric.ProxyRestarted}, 2)
		for i, kind := range append(kinds, slices.Repeat([]string{metric.RouteChanged}, 30)...) {
			after := float64(10*r.Block + i)
			span := &result.Span{AfterMS: after, BeforeMS: new(after + 0.5)}
			if r.Block == 1 && i == 1 {
				span.BeforeMS = nil
			}
			r.Changes = append(r.Changes, result.Change{Kind: kind, Task: "echo-0/sidecar", LastOld: span})
		}
	}
	r := must.Get(answer.Analyze(s.Write(t, filepath.Join(t.TempDir(), "run")), compare.Options{}))(t)
	first := slices.Min(blocksOf(r))
	want := []answer.ChangeTimes{
		{Treatment: "envoy", Kind: metric.RouteChanged, Changes: 90, Quantile: 0.5, FromMS: 38, ToMS: new(38.5)}, // the 45th of 14 to 43, 24 to 53 and 34 to 63
		{Treatment: "envoy", Kind: metric.PolicyDenied, Changes: 6, FromMS: float64(10 * first), ToMS: new(float64(10*(first+2)) + 2.5)},
		{Treatment: "envoy", Kind: metric.ProxyRestarted, Changes: 6, FromMS: float64(10*first) + 1},
	}
	for i, got := range r.ChangeTimes {
		if i >= len(want) || got.Treatment != want[i].Treatment || got.Kind != want[i].Kind || got.Changes != want[i].Changes || got.Quantile != want[i].Quantile || got.FromMS != want[i].FromMS ||
			(got.ToMS == nil) != (want[i].ToMS == nil) || got.ToMS != nil && *got.ToMS != *want[i].ToMS {
			t.Errorf("%+v (to %v) is not wanted", got, got.ToMS)
		}
	}
	if want := []answer.Unrestarted{{Treatment: "none", Kind: metric.ProxyRestarted}}; !slices.Equal(r.Unrestarted, want) {
		t.Errorf("nothing restarted in %+v, want %+v", r.Unrestarted, want)
	}
	if len(r.ChangeTimes) != len(want) {
		t.Errorf("%d kinds have times, want %d", len(r.ChangeTimes), len(want))
	}
}

func blocksOf(r *answer.Report) (all []int) {
	for _, trial := range r.Trials {
		all = append(all, trial.Block)
	}
	return all
}
