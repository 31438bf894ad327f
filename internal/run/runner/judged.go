package runner

import (
	"fmt"
	"time"

	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/timeline"
)

// second is one second of the measure phase, from its start.
type second struct {
	at                  time.Duration
	intended, completed int64 // requests due in this second, and answers in it
	ended, failed       int64 // of the requests due in it, at any time
}

// stretch is the seconds between two windows in which a check is suspended.
type stretch struct {
	from, to time.Duration
	second         // sums
	held     int64 // requests that were due before it, and neither answered before it
	after    int64 // answers in the second after it, before the fault
}

func (p stretch) String() string {
	return fmt.Sprintf("from %v to %v of the measure phase, outside the faults,", p.from, p.to)
}

// judgedSeconds returns the whole seconds of the measure phase, nil if the generator reports none.
func (t *trial) judgedSeconds() []second {
	profile := t.load.profile
	first := int((profile.Warmup + time.Second - 1) / time.Second)
	n := int((profile.Warmup+profile.Measure)/time.Second) - first
	logged, err := expect.ReadSeconds(t.setup.dir.Path(result.LatencyFile), first, n)
	if err != nil {
		return nil
	}
	t.load.mu.Lock()
	defer t.load.mu.Unlock()
	return joinSeconds(t.load.progress, logged, first, time.Duration(first)*time.Second-profile.Warmup)
}

// joinSeconds joins what the generator reported during the load with its interval log. Second first of the load is the
// first of the log, and begins at at in the measure phase.
func joinSeconds(reported []load.Progress, logged []expect.Second, first int, at time.Duration) (all []second) {
	for _, p := range reported {
		i := p.Second - first
		if i < 0 || i >= len(logged) {
			continue
		}
		ended := logged[i].OK + logged[i].Status + logged[i].Other
		all = append(all, second{at: at + time.Duration(i)*time.Second, intended: p.Intended, completed: p.Completed,
			ended: ended, failed: ended - logged[i].OK})
	}
	return all
}

// suspends reports whether a fault or a change of the trial suspends a check.
func (s seen) suspends(check string) bool {
	return len(s.windows(check)) > 0
}

// firstStretch returns the first finding in the stretches in which a check is not suspended.
func (s seen) firstStretch(check string, find func(stretch) string) string {
	for _, p := range s.outside(check) {
		if message := find(p); message != "" {
			return message
		}
	}
	return ""
}

// outside returns the stretches of the measure phase in which a check is not suspended.
func (s seen) outside(check string) (all []stretch) {
	windows := s.windows(check)
	var held int64
	judged := false
	for i, one := range s.seconds {
		was := judged
		judged = true
		for _, w := range windows {
			from := s.load.Start.Add(one.at)
			judged = judged && !w.Overlaps(from, from.Add(time.Second))
		}
		if judged {
			if !was {
				all = append(all, stretch{from: one.at, held: max(0, held)})
			}
			p := &all[len(all)-1]
			p.to = one.at + time.Second
			p.intended, p.completed = p.intended+one.intended, p.completed+one.completed
			p.ended, p.failed = p.ended+one.ended, p.failed+one.failed
			if p.after = 0; i+1 < len(s.seconds) {
				p.after = s.seconds[i+1].completed
			}
		}
		held += one.intended - one.completed
	}
	return all
}

// windows are the times in which faults and changes suspend a check.
func (s seen) windows(check string) []timeline.Window {
	return append(timeline.Windows(check, s.record.Faults, s.faults), timeline.ChangeWindows(check, s.record.Changes, s.began)...)
}

// injectedFaults are the faults of the experiment that had a target in this trial.
func (s seen) injectedFaults() (all []experiment.Fault) {
	for _, f := range s.record.Faults {
		if f.Index >= 0 && f.Index < len(s.faults) { // a changed record may have others
			all = append(all, s.faults[f.Index])
		}
	}
	return all
}
