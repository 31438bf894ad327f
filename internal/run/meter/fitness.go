package meter

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
)

// Fitness is the load of this machine over a period, and the conditions that impair a measurement.
// Values that cannot be read are nil or empty.
type Fitness struct {
	Period time.Duration
	// Load is the load average of the last minute.
	Load *float64
	// Steal is the steal time of all processors, 0..1.
	Steal *float64
	// Pressure is the share of the time in which some task waited for a processor, 0..1.
	Pressure *float64
	// Busy are the processes with the most CPU, without tare, the busiest first.
	Busy []BusyProcess
	// Quota is the CPU that the control group may use, in cores, nil without a limit or if unknown.
	Quota *float64
	// Throttled is the number of times the control group was throttled in the period.
	Throttled *int64
	// Lateness is the wake-up latency of a thread that sleeps for 1 ms at a time, ascending.
	Lateness []time.Duration
}

// BusyProcess is one process and the cores it used.
type BusyProcess struct {
	PID   int
	Name  string
	Cores float64
}

// LatenessAt is the q-quantile of the lateness. ok is false without measurements.
func (f Fitness) LatenessAt(q float64) (time.Duration, bool) {
	if len(f.Lateness) == 0 || !(q >= 0 && q <= 1) {
		return 0, false
	}
	return f.Lateness[int(q*float64(len(f.Lateness)-1))], true
}

// busiest are the processes that used at least 1 % of a core.
func busiest(cores map[int]BusyProcess) []BusyProcess {
	all := slices.SortedFunc(maps.Values(cores), func(a, b BusyProcess) int {
		return cmp.Or(cmp.Compare(b.Cores, a.Cores), cmp.Compare(a.PID, b.PID))
	})
	return lists.Where(all, func(p BusyProcess) bool { return p.Cores >= 0.01 })
}
