package session

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/runner"
)

const (
	// maxTimedRuns bounds the runs whose times are used, and maxSearched the directories that are opened to find them.
	maxTimedRuns = 5
	maxSearched  = 200
	// minTimedTrials is the number of trials from which times are used.
	minTimedTrials = 3
)

// TrialTimes is the expected time of a plan, corrected by the times that earlier trials took.
type TrialTimes struct {
	Trial, All   time.Duration
	Trials, Runs int // numbers of trials and runs that it is estimated from
}

// ReadTrialTimes sets Times from trials of earlier runs and their plans. The runs have the same experiment, platform and order and are in
// the directory of results, the newest first. Times is nil without enough of them: the plan's own times then apply.
func (s *Study) ReadTrialTimes(results string) {
	plans, err := filepath.Glob(filepath.Join(results, "*", result.PlanFile))
	if err != nil || len(s.Plan.Trials) == 0 {
		return
	}
	l := &TrialTimes{}
	var excess time.Duration // of all trials over their plans
	for i, path := range slices.Backward(plans) {
		if l.Runs == maxTimedRuns || len(plans)-i > maxSearched {
			break
		}
		over, n := s.excess(filepath.Dir(path))
		if n > 0 {
			excess += over
			l.Trials += n
			l.Runs++
		}
	}
	if l.Trials < minTimedTrials {
		return
	}
	x := s.Experiment.Phases
	least := time.Duration(len(s.Plan.Trials)) * (time.Duration(x.Warmup) + time.Duration(x.Measure))
	l.All = max(least, s.Plan.Expected+excess/time.Duration(l.Trials)*time.Duration(len(s.Plan.Trials)))
	l.Trial = l.All / time.Duration(len(s.Plan.Trials))
	s.Times = l
}

// excess returns the time that the trials of a run took beyond its plan, and their number.
// There is none if the run has another experiment.
func (s *Study) excess(dir string) (time.Duration, int) {
	d, err := result.Open(dir)
	if err != nil {
		return 0, 0
	}
	defer d.Close()
	p, e := d.Plan(), d.Environment()
	if p.Experiment != s.Plan.Experiment || p.Order != s.Plan.Order || e.Platform != s.Experiment.Platform.Kind || len(p.Trials) == 0 || p.Expected <= 0 {
		return 0, 0
	}
	if here := meter.Host(); e.Platform != mesh.OnKubernetes && (e.CPUs != here.CPUs || e.CPUModel != here.CPUModel) {
		return 0, 0
	}
	records, err := d.Records()
	if err != nil {
		return 0, 0
	}
	took, n := spent(records)
	return took - p.Expected/time.Duration(len(p.Trials))*time.Duration(n), n
}

// spent returns the time of the trials that did not fail, with the pauses between them, and their number.
func spent(records []result.Record) (all time.Duration, n int) {
	for r, span := range result.Spans(records) {
		if r.Error == "" {
			all += span
			n++
		}
	}
	return all, n
}

// Expected is the time of all trials, as far as it is known.
func (s *Study) Expected() time.Duration {
	if s.Times != nil {
		return s.Times.All
	}
	return s.Plan.Expected
}

// Busy returns words for the end of an expected time if this machine has more to run than it has processors, or "".
func (s *Study) Busy() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil || s.Experiment.Platform.Kind != mesh.OnLocal {
		return ""
	}
	return busyWords(string(text), runtime.NumCPU())
}

// busyWords are about a load average, as /proc/loadavg has it.
func busyWords(loads string, cpus int) string {
	minute, _, _ := strings.Cut(loads, " ")
	if load, err := strconv.ParseFloat(minute, 64); err == nil && load > float64(cpus) {
		return fmt.Sprintf(", longer while others use this machine: load average %s on %s", minute, printable.Counted(cpus, "CPU"))
	}
	return ""
}

// ShortMeasure returns why the measure phase is too short for the expected counter refresh interval, or "".
func (s *Study) ShortMeasure() string {
	return runner.ShortMeasure(s.Experiment.Phases, s.Program.platform(s.Experiment.Platform.Kind).refreshOf(s.Experiment))
}
