package importer

import (
	"fmt"
	"math"
	"slices"
)

// rateSlack is the tolerance for a rate divided among generators in whole
// requests.
const rateSlack = 0.02

// CheckRates compares the achieved rate with that in the file's name.
func (s *Study) CheckRates() {
	generators := s.generators()
	for i := range s.Trials {
		t := &s.Trials[i]
		l := t.Record.Load
		if l == nil || !t.RateKnown || t.Rate == 0 || l.MeasureSeconds <= 0 {
			continue
		}
		asked, achieved := float64(t.Rate), float64(l.Completed)/l.MeasureSeconds
		if math.Abs(achieved-asked) <= rateSlack*asked {
			continue
		}
		message := fmt.Sprintf("%s is a run at %g requests/s, and %.1f/s were answered", t.Run, asked, achieved)
		hint := "leave this run out; if the mesh cannot sustain the rate, report that as a result of its own"
		if n, usual := len(l.Published), generators[t.Mesh]; n < usual {
			message += fmt.Sprintf(": %d logs, and %d in other runs", n, usual)
			hint = "restore the missing logs, or leave this run out"
		} else if other, ok := s.nearRate(t, achieved); ok {
			message += fmt.Sprintf(": the logs are those of a run at %g", other)
			hint = "move the files to where they belong, or leave this run out"
		}
		t.Invalidate("other-rate", message, hint)
	}
}

// generators returns the usual number of logs per run, by mesh.
func (s *Study) generators() map[string]int {
	counts := map[string][]int{}
	for i := range s.Trials {
		if l := s.Trials[i].Record.Load; l != nil {
			counts[s.Trials[i].Mesh] = append(counts[s.Trials[i].Mesh], len(l.Published))
		}
	}
	usual := map[string]int{}
	for name, c := range counts {
		slices.Sort(c)
		usual[name] = c[len(c)/2]
	}
	return usual
}

// nearRate returns another rate of the study that the achieved rate fits.
func (s *Study) nearRate(t *Trial, achieved float64) (float64, bool) {
	for i := range s.Trials {
		if r := float64(s.Trials[i].Rate); s.Trials[i].Rate != t.Rate && math.Abs(achieved-r) <= rateSlack*r {
			return r, true
		}
	}
	return 0, false
}
