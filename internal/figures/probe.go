package figures

import (
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// probeMetric is the calibration probe's time beside a trial. It describes the machine
// and adjusts no other figure: a treatment that shifts the probe by a few percent would
// be moved by as much itself, and six pairs cannot show so small a shift.
const probeMetric = metric.ProbeTime

// probeFigures adds the time of the fixed work: the mean of before and after the load.
func probeFigures(f *figures, r *result.Record) {
	if r.Probe == nil || r.Probe.Before == nil || r.Probe.After == nil || r.Probe.Before.Work != r.Probe.After.Work {
		return
	}
	before, ok1 := r.Probe.Before.Microseconds()
	after, ok2 := r.Probe.After.Microseconds()
	if !ok1 || !ok2 {
		f.warn("probe-damaged", []string{probeMetric}, "the readings of the calibration probe have no work or no time", "the record is damaged, or another process used the processor for the whole reading")
		return
	}
	f.set(probeMetric, (before+after)/2)
}

// dropUnlikeProbes drops readings of different work: they cannot be compared.
func dropUnlikeProbes(records []result.Record, trials []Measured) {
	if ProbeWork(records) != "" {
		return
	}
	for _, t := range trials {
		delete(t.Metrics, probeMetric)
	}
}

// probeWork is the work of every trial that was probed. Empty means that none was, or they differ.
func ProbeWork(records []result.Record) string {
	work := ""
	for i := range records {
		p := records[i].Probe
		if p == nil || p.Before == nil {
			continue
		}
		if work != "" && p.Before.Work != work {
			return ""
		}
		work = p.Before.Work
	}
	return work
}
