package timeline

import (
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// underWay is how long before a fault a request may have been due that the fault hits.
const underWay = time.Second

// Window is a time in which a check is suspended.
type Window struct {
	From time.Time
	To   time.Time // zero: to the end of the trial
}

// Overlaps reports whether a part of [from, to) is in the window.
func (w Window) Overlaps(from, to time.Time) bool {
	return to.After(w.From) && (w.To.IsZero() || from.Before(w.To))
}

// Windows returns the windows in which the injected faults of a trial suspend a check, by the code of its warning.
// faults are the faults of the experiment. A fault that was not healed has a window to the end.
func Windows(check string, injected []result.Fault, faults []experiment.Fault) []Window {
	var all []Window
	for _, in := range injected {
		if in.Index < 0 || in.Index >= len(faults) { // of a changed record
			continue
		}
		f := faults[in.Index].Defaults()
		if k, _ := experiment.FaultKindOf(f.Kind); !slices.Contains(k.Suspends, check) {
			continue
		}
		w := Window{From: in.Start.Add(-underWay)}
		if !in.Healed.IsZero() {
			w.To = in.Healed.Add(time.Duration(f.Recovery))
		}
		all = append(all, w)
	}
	return all
}

// settling is how long after a change requests may fail.
const settling = 2 * time.Second

// ChangeWindows returns the windows in which the changes of a trial suspend a check, by the code of its warning. start is the start
// of the load. A denial has a window until the policy allows requests again.
func ChangeWindows(check string, changes []result.Change, start time.Time) (all []Window) {
	at := func(s float64) time.Time { return start.Add(time.Duration(nanoseconds(s))) }
	for i, c := range changes {
		kind, _ := metric.ChangeKindOf(c.Kind)
		suspends := []string{experiment.Errors} // what a change costs
		if kind.Fails {
			suspends = append(suspends, experiment.RateMissed, experiment.RateExceeded)
		}
		if kind.Plane != "" {
			suspends = append(suspends, experiment.Restarted)
		}
		if !slices.Contains(suspends, check) {
			continue
		}
		w := Window{From: at(c.SentSeconds).Add(-underWay), To: at(c.AcceptedSeconds).Add(settling)}
		if c.Kind == metric.PolicyDenied {
			w.To = time.Time{}
			for _, later := range changes[i+1:] {
				if later.Kind == metric.PolicyAllowed {
					w.To = at(later.AcceptedSeconds).Add(settling)
					break
				}
			}
		}
		all = append(all, w)
	}
	return all
}
