package answer

import (
	"math"
	"testing"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/result"
)

// The mean is over trials, and a quantile is in the bucket that holds its rank over all trials. One that is in no bucket has no end,
// and too few times have no quantile.
func TestControlTimes(t *testing.T) {
	trial := func(stage string, count int64, seconds float64, buckets ...result.TimeBucket) figures.Trial {
		return figures.Trial{Treatment: "istio", Valid: true, ControlTimes: []result.ControlTime{{Stage: stage, Count: count, Seconds: seconds, Buckets: buckets}}}
	}
	r := &Report{Treatments: []compare.Treatment{{ID: "none"}, {ID: "istio"}}, Trials: []figures.Trial{
		trial("debounce", 400, 80, result.TimeBucket{UpTo: 0.1, Count: 0}, result.TimeBucket{UpTo: 1, Count: 395}),
		trial("debounce", 600, 60, result.TimeBucket{UpTo: 0.1, Count: 500}, result.TimeBucket{UpTo: 1, Count: 90}), // ten are longer
		trial("queue", 29, 0.29, result.TimeBucket{UpTo: 0.1, Count: 29}),
	}}
	r.addControlTimes(0.95)
	if len(r.ControlTimes) != 2 {
		t.Fatalf("%+v", r.ControlTimes)
	}
	d, q := r.ControlTimes[0], r.ControlTimes[1]
	if d.Treatment != "istio" || d.Stage != "debounce" || d.Count != 1000 || math.Abs(d.Mean.Estimate-150) > 1e-9 { // 200 ms and 100 ms
		t.Errorf("%+v", d)
	}
	if d.P50 == nil || d.P50.FromMS != 0 || d.P50.ToMS == nil || *d.P50.ToMS != 100 { // the 500th of 1,000
		t.Errorf("median %+v", d.P50)
	}
	if d.P99 == nil || d.P99.FromMS != 1000 || d.P99.ToMS != nil { // the 990th, and 985 are at most a second long
		t.Errorf("99 %% %+v", d.P99)
	}
	if q.Stage != "queue" || q.Count != 29 || q.P50 != nil || q.P99 != nil || math.Abs(q.Mean.Estimate-10) > 1e-9 {
		t.Errorf("%+v", q)
	}
}
