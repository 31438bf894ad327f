package experiment

import (
	"fmt"
	"slices"
	"time"
)

// RateProfile changes the rate during the measure phase. It repeats until the end of the load.
// The warm-up has the mean rate.
type RateProfile struct {
	Steps []Step `yaml:"steps,omitempty" json:"steps,omitempty"`
}

// Step is a stretch at a multiple of the rate, or a ramp from one to another.
type Step struct {
	For  Duration `yaml:"for" json:"for"`
	At   float64  `yaml:"at" json:"at"`
	From float64  `yaml:"from" json:"from"`
	To   float64  `yaml:"to" json:"to"`
}

func (v loadRules) profile() {
	const path = "load.profile"
	if !v.doc.Has(path) {
		return
	}
	p := v.e.Load.Profile
	if !v.doc.Has(path + ".steps") {
		v.report(path, "write steps: [{for: 10s, at: 2}]", "the steps are missing")
		return
	}
	v.steps(path, p.Steps)
	if v.e.closedLoop() {
		v.report(path, "give a rate", "rate max has no schedule")
	}
	if c := p.Cycle(); c > 0 && v.doc.Sound("phases.measure") && v.e.Phases.Measure%c != 0 {
		v.report("phases.measure", "write a multiple of "+c.String(), "%v is not a whole number of cycles of load.profile, %v each", v.e.Phases.Measure, c)
	}
}

const (
	maxSteps = 100
	maxTimes = 1000
	minStep  = Duration(time.Millisecond)
)

// Cycle is the time after which the profile repeats. It is 0 if there is none.
func (p RateProfile) Cycle() (cycle Duration) {
	for _, s := range p.Steps {
		cycle += s.For
	}
	return cycle
}

func (v loadRules) steps(path string, steps []Step) {
	path += ".steps"
	if v.doc.Has(path) && len(steps) == 0 || len(steps) > maxSteps {
		v.report(path, "", "%d steps are not between 1 and %d", len(steps), maxSteps)
		return
	}
	sum := 0.0
	for i, s := range steps {
		at := fmt.Sprintf("%s[%d]", path, i)
		ramp := v.doc.Has(at+".from") || v.doc.Has(at+".to")
		switch {
		case !ramp && !v.doc.Has(at+".at"):
			v.report(at, "write at: 2 for twice the rate, or from and to for a ramp", "the step has no rate")
		case s.At != 0 && (s.From != 0 || s.To != 0):
			v.report(at, "write at for a step, or from and to for a ramp", "the step is also a ramp")
		}
		from, to := s.Ends()
		sum += from + to
	}
	if len(steps) > 0 && sum == 0 {
		v.report(path, "", "no step has a rate above 0")
	}
}

// Ends are the multiples of the rate at both ends.
func (s Step) Ends() (from, to float64) {
	if s.From != 0 || s.To != 0 {
		return s.From, s.To
	}
	return s.At, s.At
}

// closedLoop reports whether a level of the rate is max without an objective.
func (e *Experiment) closedLoop() bool {
	return slices.Contains(LevelsOf[RateLevel](e.Factors, "rate"), RateLevel{})
}
