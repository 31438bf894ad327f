package result

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/load"
)

// Contradictions lists what cannot be true together in a record. It compares counts
// that were made apart from one another, so that a changed figure is found without
// a digest.
func (r *Record) Contradictions() []string {
	var c contradictions
	for _, check := range crossChecks {
		if check.needs == anyTrial || r.Error == "" && (check.needs == completeTrial || r.Load != nil) {
			check.find(&c, r)
		}
	}
	return c.found
}

// Trials that a check applies to. Counts of a trial that ended early are not complete.
const (
	anyTrial = iota
	completeTrial
	loadedTrial // complete, with a load
)

// crossChecks compare figures of a record with one another, in the order of their messages.
var crossChecks = []struct {
	needs int
	find  func(*contradictions, *Record)
}{
	{anyTrial, (*contradictions).outcome},
	{anyTrial, (*contradictions).phases},
	{loadedTrial, (*contradictions).counts},
	{loadedTrial, (*contradictions).ended},
	{loadedTrial, (*contradictions).due},
	{loadedTrial, (*contradictions).conserved},
	{loadedTrial, (*contradictions).windowed},
	{loadedTrial, (*contradictions).changes},
	{completeTrial, (*contradictions).memory},
	{completeTrial, (*contradictions).traced},
	{completeTrial, (*contradictions).machine},
}

// Regressions lists counters that went back. Reports leave the figures of such a task out,
// with a warning: a process that was started again, or a clock that was set back, has them too.
func (r *Record) Regressions() []string {
	var c contradictions
	if r.Error == "" {
		c.tasks(r)
	}
	return c.found
}

// contradictions collects findings.
type contradictions struct{ found []string }

func (c *contradictions) outcome(r *Record) {
	for _, w := range r.Warnings {
		if r.Valid && w.Invalidates {
			c.addf("it is valid, and warning %s makes it invalid", w.Code)
			return
		}
	}
	for _, check := range r.Checks {
		if r.Valid && !check.OK {
			c.addf("it is valid, and check %.80q failed", check.Name)
		}
	}
	if r.Valid && r.Error != "" {
		c.addf("it is valid, and has an error")
	}
}

// phases must follow one another.
func (c *contradictions) phases(r *Record) {
	last, at := r.Started, "the trial started"
	for _, p := range r.Phases {
		if p.Start.Before(last) {
			c.addf("phase %s starts %v before %s", p.Name, last.Sub(p.Start), at)
			return
		}
		if p.End.Before(p.Start) {
			c.addf("phase %s ends before it starts", p.Name)
			return
		}
		last, at = p.End, "phase "+p.Name+" ended"
	}
	if !r.Ended.IsZero() && r.Ended.Before(last) {
		c.addf("the trial ended before %s", at)
	}
}

// counts are the requests that were due in the window, by several properties.
func (c *contradictions) counts(r *Record) {
	l := r.Load
	for _, n := range []struct {
		name string
		n    int64
	}{{"intended", l.Intended}, {"sent", l.Sent}, {"completed", l.Completed}, {"bytesIn", l.BytesIn}, {"bytesOut", l.BytesOut}, {"recorded", l.Recorded}} {
		if n.n < 0 {
			c.addf("load.%s is %d", n.name, n.n)
		}
	}
	requests, statuses, failures := c.sum("load.classes", l.Classes), c.sum("load.statuses", l.Statuses), c.sum("load.errors", l.Errors)
	if !l.conserves() {
		return // other generators count these apart from one another, and scale them
	}
	answered := l.Classes[string(load.OK)] + l.Classes[string(load.Status)]
	switch {
	case requests > l.Intended:
		c.addf("load.classes add up to %d requests, and load.intended is %d", requests, l.Intended)
	case len(l.Statuses) > 0 && (statuses < l.Classes[string(load.OK)] || statuses > requests):
		c.addf("load.statuses add up to %d, and load.classes to %d requests, %d of them answered as expected", statuses, requests, l.Classes[string(load.OK)])
	case failures > requests-l.Classes[string(load.OK)]:
		c.addf("load.errors add up to %d, and load.classes have %d failures", failures, requests-l.Classes[string(load.OK)])
	case l.Sent > l.Intended || l.Sent < answered:
		c.addf("load.sent is %d, load.intended %d, and %d requests were answered", l.Sent, l.Intended, answered)
	}
}

// sum adds counts. It finds negative ones.
func (c *contradictions) sum(name string, counts map[string]int64) int64 {
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if counts[key] < 0 {
			c.addf("%s of %.40q is %d", name, key, counts[key])
		}
	}
	return total(counts)
}

// looseShare bounds the difference of answers in the window and answers to requests
// of the window, where the backlog is unknown.
const looseShare = 0.25

// ended compares the answers in the window with the requests due in it.
func (c *contradictions) ended(r *Record) {
	l := r.Load
	requests, statuses := total(l.Classes), total(l.Statuses)
	failed := l.Classes[string(load.Timeout)] + l.Classes[string(load.Conn)]
	if statuses > 0 { // of TCP there are none
		failed = max(failed, requests-statuses)
	}
	if l.conserves() {
		// Every request that was due in the window or waited at its start has ended in it or
		// waits at its end. Failures have no answer, and failures of the backlog are not counted apart.
		most := requests + *l.BacklogStart - *l.BacklogEnd
		if least := most - failed - *l.BacklogStart; l.Completed > most || l.Completed < least {
			c.addf("load.completed is %d, and by load.classes and the backlog %s requests were answered in the window", l.Completed, between(least, most))
		}
		return
	}
	answered := requests - failed
	if !r.Valid || l.Completed == 0 && answered == 0 {
		return // a trial that missed its rate is invalid for that
	}
	slack := float64(max(5, l.Connections)) + float64(failed)
	if l.Loop != loopClosed {
		slack = max(slack, looseShare*float64(answered))
	}
	if math.Abs(float64(l.Completed-answered)) > slack {
		c.addf("load.completed is %d, and load.classes have %d answers", l.Completed, answered)
	}
}

func total(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

const loopClosed = "closed"

func between(least, most int64) string {
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// due compares the schedule with the rate and the length of the window.
func (c *contradictions) due(r *Record) {
	l := r.Load
	window := l.End.Sub(l.Start).Seconds()
	if !l.conserves() || l.MeasureSeconds <= 0 {
		return
	}
	if math.Abs(window-l.MeasureSeconds) > 0.01+0.01*l.MeasureSeconds {
		c.addf("load.start and load.end are %.3f s apart, and load.measureSeconds is %.3f", window, l.MeasureSeconds)
	}
	if l.Loop != "open" || l.AskedRate <= 0 {
		return
	}
	if want := l.scheduled(); math.Abs(float64(l.Intended)-want) > l.scheduleSlack() {
		c.addf("load.intended is %d, and load.askedRate makes %.0f in %.3f s", l.Intended, want, l.LoadedSeconds())
	}
}

// conserves reports whether the generator counts the backlog at both edges, as tare's
// own does: then the number of requests that ended in the window is exact.
func (l *Load) conserves() bool { return l.BacklogStart != nil && l.BacklogEnd != nil }

// scheduleSlack is six standard deviations of a Poisson count. Constant arrivals are
// far within.
func (l *Load) scheduleSlack() float64 {
	return 6*math.Sqrt(l.scheduled()) + 2 + float64(l.Workers)
}

// scheduled is the mean number of requests that an open loop owes in the window.
func (l *Load) scheduled() float64 { return l.AskedRate * l.LoadedSeconds() }

// changes checks the order of the instants of each change.
func (c *contradictions) changes(r *Record) {
	sent := 0.0
	for i, change := range r.Changes {
		if change.SentSeconds < max(sent, change.DueSeconds) || change.AcceptedSeconds < change.SentSeconds {
			c.addf("changes[%d] was due after %v s, sent after %v s and accepted after %v s", i, change.DueSeconds, change.SentSeconds, change.AcceptedSeconds)
		}
		sent = change.SentSeconds
		for name, s := range map[string]*Span{"firstNew": change.FirstNew, "lastOld": change.LastOld} {
			if s != nil && s.BeforeMS != nil && *s.BeforeMS <= s.AfterMS {
				c.addf("changes[%d].%s is after %v ms and not later than %v ms", i, name, s.AfterMS, *s.BeforeMS)
			}
		}
	}
}

// cpuSlack bounds the CPU time of a task beyond the time of all processors: readings of
// counters and times are not one moment.
const cpuSlack = 0.1

// machine: no task uses more CPU time than its machine has.
func (c *contradictions) machine(r *Record) {
	for _, t := range r.Tasks {
		wall, cpu := t.End.At.Sub(t.Start.At), t.End.CPU-t.Start.CPU
		if t.Missing == "" && r.Node != nil && r.Node.CPUs > 0 && wall > time.Second && float64(cpu) > (1+cpuSlack)*float64(wall)*float64(r.Node.CPUs) {
			c.addf("task %s used %v of CPU time in %v on %d processors", t.ID, time.Duration(cpu), wall, r.Node.CPUs)
		}
	}
}

// tasks: counters advance.
func (c *contradictions) tasks(r *Record) {
	for _, t := range r.Tasks {
		wall, cpu := t.End.At.Sub(t.Start.At), t.End.CPU-t.Start.CPU
		restarted := t.End.Restarts != t.Start.Restarts
		switch {
		case t.Missing != "" || t.Start.At.IsZero() || t.End.At.IsZero():
		case t.Start.CPU < 0 || t.End.CPU < 0 || t.Start.RSS < 0 || t.End.RSS < 0:
			c.addf("task %s has a negative counter", t.ID)
		case wall < 0:
			c.addf("task %s was read at the end %v before it was read at the start", t.ID, -wall)
		case cpu < 0 && !t.Ended && !restarted:
			c.addf("the CPU time of task %s decreased by %v", t.ID, time.Duration(-cpu))
		}
	}
	if n := r.Node; n != nil && !n.Start.At.IsZero() && !n.End.At.IsZero() && n.End.At.Before(n.Start.At) {
		c.addf("the machine was read at the end before it was read at the start")
	}
}

func (c *contradictions) addf(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}
