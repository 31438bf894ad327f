package figures

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// byTheSecond are the metrics that take more than counts.
var byTheSecond = slices.DeleteFunc(metric.From(metric.LatencyLog), func(name string) bool { return slices.Contains(latencyNames, name) })

// failureFigures computes the number and the duration of failures. Without
// failures it does not read the interval log.
func failureFigures(f *figures, r *result.Record, path string) {
	if r.Error != "" || r.Load == nil {
		return
	}
	for name, n := range r.MeshCounters {
		f.set(metric.MeshPrefix+name, float64(n))
	}
	all, lost := CountEnded(r.Load)
	if all == 0 {
		return
	}
	f.set(metric.RequestsLost, float64(lost))
	if n, known := r.Load.Classes[string(load.Timeout)]; known {
		f.set(metric.Timeouts, float64(n))
	}
	if lost == 0 {
		f.set(metric.LongestOutage, 0)
		if len(r.FaultTimes()) > 0 {
			f.set(metric.Recovery, 0)
		}
		return
	}
	outages(f, r, path)
}

// ended counts the requests that ended in the measure window, and how many of these failed.
func CountEnded(l *result.Load) (all, lost int64) {
	for class, n := range l.Classes {
		all += n
		if class != string(load.OK) {
			lost += n
		}
	}
	return all, lost
}

// outages reads the seconds of the measure window.
func outages(f *figures, r *result.Record, path string) {
	if !whole(r.Load.WarmupSeconds) || !whole(r.Load.MeasureSeconds) {
		f.warn("failures-unplaced", byTheSecond, "the measure window is not a whole number of seconds: the time of failures is unknown", "measure for whole seconds")
		return
	}
	first, n := r.Load.Window()
	seconds, err := expect.ReadSeconds(path, first, n)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.warn("failures-unplaced", byTheSecond, "the trial has no latency log: the time of failures is unknown", "use a load generator with a latency log")
		return
	case err != nil:
		f.warn("failures-unplaced", byTheSecond, err.Error(), "restore the file")
		return
	}
	trial := expect.Trial{Seconds: seconds, Faults: r.FaultTimes()}
	f.set(metric.LongestOutage, trial.LongestOutage())
	if len(trial.Faults) == 0 {
		return
	}
	if v, ok := trial.Recovery(false); ok {
		f.set(metric.Recovery, v)
		return
	}
	f.warn("not-recovered", []string{metric.Recovery}, fmt.Sprintf("after at least one of %d faults requests still failed at the next fault or at the end", len(trial.Faults)),
		"the time to recover is longer than the time measured between faults: see longest_outage_s, or leave more time between faults")
}
