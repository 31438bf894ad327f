package runner

import (
	"context"
	"fmt"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// serviceTimes reads the request times that services measure themselves.
type serviceTimes struct {
	journal *journal
	timer   platform.StageTimer // nil: there are none
}

// read reads the times that services measured, nil if they measure none. It runs outside the
// edges, so that its cost is not measured.
func (st *serviceTimes) read(ctx context.Context) []app.StageTime {
	if st.timer == nil {
		return nil
	}
	times, err := st.timer.StageTimes(ctx)
	if err != nil {
		st.journal.warn(result.Warning{Code: "stages-unread", Message: fmt.Sprintf("the services' own times could not be read: %v", err),
			Metrics: []string{metric.StageTime, metric.RouteServerTime, metric.RouteCalcTime}})
		return nil
	}
	return times
}

// keep records the difference of two readings.
func (st *serviceTimes) keep(begin, end []app.StageTime) {
	if begin == nil {
		return
	}
	for _, e := range end {
		for _, b := range begin {
			if b.Route == e.Route && b.Stage == e.Stage {
				e.Count -= b.Count
				e.Seconds -= b.Seconds
			}
		}
		if e.Count > 0 {
			st.journal.record.Stages = append(st.journal.record.Stages, result.Stage(e))
		}
	}
}
