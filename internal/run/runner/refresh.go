package runner

import (
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
)

// NodeTail is the tail in which the nodes' own counters are refreshed twice under load. Like the
// tail for containers it is one refresh interval or less. 0: the measure phase is
// long enough, or shorter than one interval: most of the time between two refreshes
// would then lie outside the phase, and the nodes are not measured.
func NodeTail(x experiment.Phases, warmup, refresh time.Duration) time.Duration {
	if refresh <= 0 || time.Duration(x.Measure) < refresh {
		return 0
	}
	loaded := warmup - ramp + time.Duration(x.Measure)
	return min(refresh, max(0, shortRefreshes*refresh+nodeReadings-loaded))
}

// ShortMeasure returns a sentence if the measure phase is too short for the refresh interval,
// otherwise "".
func ShortMeasure(x experiment.Phases, refresh time.Duration) string {
	least := MinMeasure(refresh)
	measure := time.Duration(x.Measure)
	if measure >= least {
		return ""
	}
	return fmt.Sprintf("the counter refresh interval is up to %v, and a measure phase of %v is short for it: the error of CPU per request is up to %.0f %%, and 2 %% or less with %v or more",
		refresh, measure, 100*usualVariation*min(1, float64(refresh)/float64(measure)), least)
}

const (
	// usualVariation is the relative difference of CPU between two refreshes under the same load.
	usualVariation = 0.05
	// maxError of CPU per request: with a larger one a measure phase counts as short.
	maxError = 0.02
)

// MinMeasure is the measure phase with an error of CPU per request of 2 % or less. A reading is at
// most half a refresh interval from each edge. One interval beside the phase is then measured, in
// which CPU usually differs by 5 %. 0: any length is sufficient.
func MinMeasure(refresh time.Duration) time.Duration {
	return time.Duration(float64(refresh) * usualVariation / maxError).Round(time.Second)
}

// RefreshExtra is the approximate additional time of a trial whose counters are refreshed at an
// interval.
func RefreshExtra(x experiment.Phases, refresh time.Duration) time.Duration {
	warmup, tail := PhasesForRefresh(x, refresh)
	// The idle waits take two refreshes before the load, and two after it.
	return warmup - time.Duration(x.Warmup) + tail + 4*refresh
}

const (
	// warmupRefreshes is the minimum warm-up, in refresh intervals. One refresh then
	// is under load and before the measure phase, with half an interval to spare.
	warmupRefreshes = 1.5
	// ramp is the time after its start in which the load reaches its rate.
	ramp = time.Second
	// readsPerRefresh is the number of readings between two refreshes.
	readsPerRefresh = 4
	// shortRefreshes is the length, in refresh intervals, below which a measure phase
	// may contain no refresh. The load then continues until the next one.
	shortRefreshes = 2
	// nodeReadTime is the maximum time to read the counters of all nodes of a cluster.
	nodeReadTime = time.Second
	// nodeReadings is the time that the counters of a node's own control groups may be
	// read later than the node's total: the kubelet meter reads them every 5 s.
	nodeReadings = 5 * time.Second
	// promptly is the distance from an edge up to which a reading counts as made at the edge.
	promptly = 200 * time.Millisecond
)

// PhasesForRefresh returns the warm-up and the tail for counters with a refresh interval. It
// extends the warm-up so that each counter is refreshed under load before the measure phase. A short measure phase gets a tail, so that each is refreshed again under the same load.
func PhasesForRefresh(x experiment.Phases, refresh time.Duration) (warmup, tail time.Duration) {
	warmup = max(time.Duration(x.Warmup), time.Duration(warmupRefreshes*float64(refresh)))
	if time.Duration(x.Measure) < shortRefreshes*refresh {
		tail = refresh
	}
	return warmup, tail + nodeReadTime
}
