package runner

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/tare-mesh/tare/internal/base/probe"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

const probeUnread = "probe-unread"

// probe takes a reading of how slow the processors are. One stands before the load
// and one after it, never beside it: under load it would measure what the trial
// does to the processors, which is what is asked for.
func (t *trial) probe(ctx context.Context, keep func(*result.Probe, *probe.Reading)) error {
	if t.deployment.Prober == nil || !t.Experiment.Probe {
		return nil
	}
	runtime.GC() // now, and not beside the reading
	r, err := t.deployment.Prober.Probe(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if t.record.Probe == nil {
		t.record.Probe = &result.Probe{}
	}
	if err == nil {
		keep(t.record.Probe, &r)
		return nil
	}
	if !slices.ContainsFunc(t.record.Warnings, func(w result.Warning) bool { return w.Code == probeUnread }) {
		t.warn(result.Warning{Code: probeUnread, Message: fmt.Sprintf("how slow the processors were could not be read: %v", err),
			Hint:    "figures stand as they are and cannot be normalised; `probe: false` in the experiment file leaves the readings out",
			Metrics: []string{metric.ProbeTime}})
	}
	return nil
}
