package runner

import (
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
)

// recorded are the codes of the checks that need only what a results directory has.
var recorded = []string{"changed-by-hand", "rate-missed", "rate-exceeded", "requests-not-conserved", "cpu-impossible", "errors", "response-size",
	"generator-saturated", "generator-late", "unattributed", "foreign-starves", "task-missing", "restarted", "throttled", "slices-overrun", "cpu-pressure", "cpu-stolen"}

// disturbed are those of them that need every second of the load where faults or changes are scheduled.
var disturbed = []string{"rate-missed", "rate-exceeded", "errors", "restarted"}

// certainP50 is the response time below which the limit of lateness does not depend on it.
const certainP50 = 8 * time.Millisecond

// Recheck makes the checks of a recorded trial again, as far as its record, its slices and the median of its response times
// permit. It returns the codes of these checks, and the warnings. A trial that was not measured to its end had no checks.
func Recheck(x *experiment.Experiment, r *result.Record, rows []result.Slice, p50 time.Duration) (codes []string, warnings []result.Warning) {
	for _, w := range r.Warnings {
		if w.Invalidates && !slices.ContainsFunc(checks, func(c validityCheck) bool { return c.code == w.Code }) {
			return nil, nil
		}
	}
	load := *r.Load
	for _, row := range rows {
		if row.Own {
			load.SliceCounts = append(load.SliceCounts, row.SliceCount)
		}
	}
	s := seen{record: r, load: &load, limits: x.Validity, open: load.AskedRate > 0, faults: x.Faults, p50: p50}
	codes = slices.DeleteFunc(slices.Clone(recorded), func(code string) bool {
		return (len(x.Faults) > 0 || x.Changing()) && slices.Contains(disturbed, code) ||
			code == "slices-overrun" && (load.Slices == nil || rows == nil) ||
			code == "generator-late" && x.Validity.Lateness == 0 && p50 > certainP50
	})
	return codes, s.warnings(x.Platform.Kind, codes)
}
