package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/result"
)

func (t *trial) startsPods() bool { return t.setup.Experiment.Starts > 0 }

// starts stops and starts the entry's pods after the load.
func (t *trial) starts(ctx context.Context) error {
	if t.deployment.StopAndStart == nil {
		return fmt.Errorf("starts: %w by platform %s", errors.ErrUnsupported, t.setup.Experiment.Platform.Kind)
	}
	for range t.setup.Experiment.Starts {
		did, err := t.deployment.StopAndStart(ctx)
		if err != nil {
			return err
		}
		for _, pod := range did {
			t.journal.record.Starts = append(t.journal.record.Starts, result.Start{GoneMS: inMilliseconds(pod.Gone), Lost: pod.Lost, FirstMS: inMilliseconds(pod.First), LeastMS: inMilliseconds(pod.Least)})
		}
	}
	return broken(t.deployment)
}

func inMilliseconds(times map[string]time.Duration) map[string]float64 {
	all := map[string]float64{}
	for part, d := range times {
		all[part] = float64(d) / float64(time.Millisecond)
	}
	return all
}
