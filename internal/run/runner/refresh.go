package runner

import (
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
)

const (
	// warmupRefreshes is the least warm-up in refreshes of the counters: one refresh
	// lies then within the load and before the measure phase, with half to spare.
	warmupRefreshes = 1.5
	// ramp is how long after its beginning the load has its rate for certain.
	ramp = time.Second
	// looksPerRefresh is how often the counters are asked for between two refreshes.
	looksPerRefresh = 4
	// shortRefreshes is a measure phase, in refreshes, that may end with no refresh
	// in it: the load then goes on until one has come.
	shortRefreshes = 2
	// asking is how long it may take until every node of a cluster has told its counters.
	asking = time.Second
	// promptly read is a counter that was read so soon after an edge that no refresh stands between.
	promptly = 200 * time.Millisecond
)

// PacedPhases is what becomes of the phases of x where counters are refreshed
// only so often: the warm-up is raised, so that each counter is refreshed under
// load before the measure phase, and a tail is added to a short measure phase, so
// that each is refreshed again under the same load.
func PacedPhases(x experiment.Phases, refresh time.Duration) (warmup, tail time.Duration) {
	warmup = max(time.Duration(x.Warmup), time.Duration(warmupRefreshes*float64(refresh)))
	if time.Duration(x.Measure) < shortRefreshes*refresh {
		tail = refresh
	}
	return warmup, tail + asking
}

const (
	// usualUnrest is how much CPU under one and the same load differs between two refreshes of its counter.
	usualUnrest = 0.05
	// wantedError of CPU per request is that beyond which a measure phase counts as short.
	wantedError = 0.02
)

// LeastMeasure is the measure phase from which on CPU per request is off by no
// more than 2 % because of when its counters were refreshed: readings lie half a
// refresh from each edge at most, so that one refresh of the phase is measured
// beside it, where CPU differs by 5 % as a rule. 0: any length will do.
func LeastMeasure(refresh time.Duration) time.Duration {
	return time.Duration(float64(refresh) * usualUnrest / wantedError).Round(time.Second)
}

// ShortMeasure says that the measure phase is too short for its counters; empty: it is not.
func ShortMeasure(x experiment.Phases, refresh time.Duration) string {
	least := LeastMeasure(refresh)
	measure := time.Duration(x.Measure)
	if measure >= least {
		return ""
	}
	return fmt.Sprintf("counters are refreshed every %v at least, and a measure phase of %v is short for that: CPU per request may be off by %.0f %%, and by 2 %% or less from %v on",
		refresh, measure, 100*usualUnrest*min(1, float64(refresh)/float64(measure)), least)
}

// PacedExtra is about how much longer a trial takes where counters are refreshed only so often.
func PacedExtra(x experiment.Phases, refresh time.Duration) time.Duration {
	warmup, tail := PacedPhases(x, refresh)
	// Coming to rest takes two refreshes before the load, and two after it.
	return warmup - time.Duration(x.Warmup) + tail + 4*refresh
}
