package live

import (
	"strings"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
)

// A long measure phase has a line with the present slope of memory and the median, and a short one has none.
func TestTrendLine(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for seconds, want := range map[int]string{
		20:  "",
		100: "  trend, last 99 s: data 140.0 MiB +24.00/min, app 20.0 MiB +0.00/min, p50 +0.0600 ms/min",
		900: "  trend, last 10 min: data 460.0 MiB +24.00/min, app 20.0 MiB +0.00/min, p50 +0.0600 ms/min",
	} {
		b := NewBoard(plan.Plan{Treatments: []plan.Treatment{{ID: "envoy"}}, Trials: []plan.Trial{{ID: "1", Treatment: "envoy", Block: 1}}, Blocks: 1})
		b.Apply(result.Event{Kind: result.KindTrial, Trial: "1", Time: began})
		b.Apply(result.Event{Kind: result.KindPhase, Trial: "1", Phase: "measure", Time: began})
		for s := range seconds {
			at := began.Add(time.Duration(s+1) * time.Second)
			b.Apply(result.Event{Kind: result.KindProgress, Trial: "1", Time: at, Progress: &result.Progress{Second: s, Rate: 100, P50MS: 1 + float64(s)/1000, P99MS: 2}})
			b.Apply(result.Event{Kind: result.KindSample, Trial: "1", Time: at, Sample: &result.Sample{Memory: map[string]float64{"data": 100.4 + 0.4*float64(s), "app": 20}}})
		}
		got := strings.Join(trendLines(b.trials["1"], 120), "")
		if got != want {
			t.Errorf("%d seconds: %q, want %q", seconds, got, want)
		}
	}
}
