package result

import (
	"time"

	"github.com/tare-mesh/tare/internal/experiment/expect"
)

// FaultTimes returns the trial's faults in seconds from the start of the measure
// window, as far as they lie in it.
func (r *Record) FaultTimes() []expect.Fault {
	if r.Load == nil {
		return nil
	}
	length := r.Load.MeasureSeconds
	var all []expect.Fault
	for _, f := range r.Faults {
		at := f.Start.Sub(r.Load.Start).Seconds()
		if at >= length {
			continue
		}
		times := expect.Fault{At: max(0, at), Heal: length}
		if heal := f.Healed.Sub(r.Load.Start).Seconds(); !f.Healed.IsZero() && heal < length {
			times.Heal, times.Healed = heal, true
		}
		all = append(all, times)
	}
	return all
}

// Window returns the measure window in whole seconds of the interval log.
func (l *Load) Window() (first, n int) {
	round := func(s float64) int {
		return int(time.Duration(s*float64(time.Second)).Round(time.Second) / time.Second)
	}
	return round(l.WarmupSeconds), round(l.MeasureSeconds)
}
