package importer

import (
	"fmt"
	"math"
	"slices"
)

// rateSlack is the tolerance for a rate divided among generators in whole
// requests.
const rateSlack = 0.02

// CheckRates compares the rate of the requests with the intended one. If only the
// file's name contains that, the file may be in the wrong place.
func (s *Study) CheckRates() {
	generators := s.generators()
	for i := range s.Trials {
		t := &s.Trials[i]
		asked := float64(t.Rate)
		if t.Record.Load == nil || !t.RateKnown || asked == 0 || math.Abs(t.sent-asked) <= rateSlack*asked {
			continue
		}
		message := fmt.Sprintf("%s is a run at %g requests/s, and %.1f/s were sent", t.Run, asked, t.sent)
		hint := "leave this run out; if the mesh cannot sustain the rate, report that as a result of its own"
		usual := generators[t.Mesh]
		other, near := s.nearRate(t, t.sent)
		switch {
		case t.logs < usual:
			message += fmt.Sprintf(": %d logs, and %d in other runs", t.logs, usual)
			hint = "restore the missing logs, or leave this run out"
		case t.RateNamed && near:
			message += fmt.Sprintf(": the logs are those of a run at %g", other)
			hint = "move the files to where they belong, or leave this run out"
		case !t.RateNamed && t.sent < asked:
			t.Warn("rate-unreached", message+": the load generator or the server was saturated", "compare these runs as runs of a closed loop, or measure at a lower rate")
			continue
		}
		t.Invalidate("other-rate", message, hint)
	}
}

// generators returns the usual number of logs per run, by mesh.
func (s *Study) generators() map[string]int {
	counts := map[string][]int{}
	for i := range s.Trials {
		if t := &s.Trials[i]; t.logs > 0 {
			counts[t.Mesh] = append(counts[t.Mesh], t.logs)
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
