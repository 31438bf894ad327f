package timeline_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tare-mesh/tare/internal/inside/simulated"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
	"github.com/tare-mesh/tare/internal/run/timeline"
)

// Changes of two services at three proxies, one of which gets nothing. A change that a later one of its service replaced counts from
// the later arrival.
func TestPushes(t *testing.T) {
	began := time.Unix(1000, 0)
	sent := map[int]time.Time{1: began.Add(time.Second), 2: began.Add(2 * time.Second), 3: began.Add(3 * time.Second)}
	us := func(s float64) int64 { return int64(s * 1e6) }
	r := &platform.Received{Ahead: 500 * time.Millisecond, Report: simulated.Report{Proxies: 3, SyncedMS: []int{30, 10, 20}, BeganNS: began.Add(500 * time.Millisecond).UnixNano()},
		Arrivals: []simulated.Arrival{{Number: 1, AtUS: []int64{us(1.010), 0, 0}}, {Number: 2, AtUS: []int64{us(2.020), us(2.040), 0}}, {Number: 3, AtUS: []int64{us(3.010), us(3.030), 0}}}}
	got := timeline.Pushes(sent, 2, r)
	if got.Pairs != 9 || got.Missed != 3 || got.Unreached != 1 || !slices.Equal(got.UnreachedAt, []int{3}) || got.Reached != 0 || got.LastMS != nil || got.SyncMS != 30 {
		t.Errorf("got %+v, want 3 of 9 pairs missed at proxy 3, and no change at all proxies", got)
	}
	// 10, 10, 20, 30, 40 and 2030 ms, and three that never came.
	if p := got.EachMS; p == nil || p.P50 == nil || math.Abs(*p.P50-40) > 0.1 || p.P99 != nil {
		t.Errorf("quantiles over pairs: %v, want a median of 40 ms and no 99 %% quantile", p)
	}
	for i := range r.Arrivals {
		r.Arrivals[i].AtUS = r.Arrivals[i].AtUS[:2]
	}
	r.Proxies = 2
	got = timeline.Pushes(sent, 2, r)
	if got.Missed != 0 || got.Unreached != 0 || got.Reached != 3 || got.LastMS == nil || math.Abs(*got.LastMS.P50-40) > 0.1 {
		t.Errorf("got %+v (last %+v), want every change at both proxies, in 40 ms in the median", got, got.LastMS)
	}
	if got := timeline.Pushes(nil, 2, r); got.Pairs != 0 || got.EachMS != (*result.PushTimes)(nil) || got.Unreached != 0 {
		t.Errorf("without changes: %+v", got)
	}
}
