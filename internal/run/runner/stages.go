package runner

import (
	"context"
	"fmt"

	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// stageTimes reads what the services say of their own times; nil where they say
// nothing. It is read just outside of the edges at which the meters are, so that
// its cost lies outside of what is measured.
func (t *trial) stageTimes(ctx context.Context) []platform.StageTime {
	if t.deployment.StageTimer == nil {
		return nil
	}
	times, err := t.deployment.StageTimer.StageTimes(ctx)
	if err != nil {
		t.warn(result.Warning{Code: "stages-unread", Message: fmt.Sprintf("the services' own times could not be read: %v", err),
			Metrics: []string{metric.StageTime, metric.RouteServerTime, metric.RouteCalcTime}})
		return nil
	}
	return times
}

// keepStages keeps what was added between two readings.
func (t *trial) keepStages(begin, end []platform.StageTime) {
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
			t.record.Stages = append(t.record.Stages, result.Stage(e))
		}
	}
}
