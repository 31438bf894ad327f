package meter

import (
	"slices"
	"time"
)

// Fitness is how quiet this machine was over a stretch of time, with what on it
// hampers a measurement. What cannot be read is nil or empty.
type Fitness struct {
	Period time.Duration
	// Load is the load average of the last minute.
	Load *float64
	// Steal is the share of all processors' time the hypervisor gave to other guests, 0..1.
	Steal *float64
	// Pressure is the share of the time in which some task waited for a processor, 0..1.
	Pressure *float64
	// Busy are the processes that used most CPU, tare left out, the busiest first.
	Busy []BusyProcess
	// Quota is the CPU that the control group may use, in cores; nil: no limit, or none is known.
	Quota *float64
	// Throttled is how often the control group was held back in the period.
	Throttled *int64
	// Lateness is how much too late a thread woke that slept a millisecond at a time, ascending.
	Lateness []time.Duration
}

// BusyProcess is one process and the cores it used.
type BusyProcess struct {
	PID   int
	Name  string
	Cores float64
}

// LatenessAt is the q-quantile of the lateness; not ok where none was measured.
func (f Fitness) LatenessAt(q float64) (time.Duration, bool) {
	if len(f.Lateness) == 0 || !(q >= 0 && q <= 1) {
		return 0, false
	}
	return f.Lateness[int(q*float64(len(f.Lateness)-1))], true
}

// busiest are the processes that used at least one part in a hundred of a core.
func busiest(cores map[int]BusyProcess) []BusyProcess {
	var all []BusyProcess
	for _, p := range cores {
		if p.Cores >= 0.01 {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b BusyProcess) int {
		if a.Cores != b.Cores {
			if a.Cores > b.Cores {
				return -1
			}
			return 1
		}
		return a.PID - b.PID
	})
	return all
}
