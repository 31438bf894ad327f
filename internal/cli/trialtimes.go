package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
)

const (
	// maxTimedRuns bounds the runs whose times are used, and maxSearched the directories that are opened to find them.
	maxTimedRuns = 5
	maxSearched  = 200
	// minTimedTrials is the number of trials from which times are used.
	minTimedTrials = 3
)

// trialTimes is the expected time of a plan, corrected by the times that earlier trials took.
type trialTimes struct {
	trial, all   time.Duration
	trials, runs int // from which it is
}

// readTrialTimes compares trials of earlier runs with their plans. The runs are those of the same experiment, platform and order in
// the directory of results, the newest first. It returns nil without enough of them: the plan's own times then apply.
func (s *Study) readTrialTimes(results string) *trialTimes {
	plans, err := filepath.Glob(filepath.Join(results, "*", result.PlanFile))
	if err != nil || len(s.Plan.Trials) == 0 {
		return nil
	}
	l := &trialTimes{}
	var excess time.Duration // of all trials over their plans
	for i, path := range slices.Backward(plans) {
		if l.runs == maxTimedRuns || len(plans)-i > maxSearched {
			break
		}
		over, n := s.excess(filepath.Dir(path))
		if n > 0 {
			excess += over
			l.trials += n
			l.runs++
		}
	}
	if l.trials < minTimedTrials {
		return nil
	}
	x := s.Experiment.Phases
	least := time.Duration(len(s.Plan.Trials)) * (time.Duration(x.Warmup) + time.Duration(x.Measure))
	l.all = max(least, s.Plan.Expected+excess/time.Duration(l.trials)*time.Duration(len(s.Plan.Trials)))
	l.trial = l.all / time.Duration(len(s.Plan.Trials))
	return l
}

// excess is the time that the trials of a run took beyond its plan, and their number.
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

// spent is the time of the trials that did not fail, with the pauses between them, and their number.
func spent(records []result.Record) (all time.Duration, n int) {
	for r, span := range result.Spans(records) {
		if r.Error == "" {
			all += span
			n++
		}
	}
	return all, n
}

// timeWords are the expected times of the plan.
func (s *Study) timeWords() string {
	p := s.Plan
	if l := s.trialTimes; l != nil {
		return fmt.Sprintf("about %v, %v per trial (estimate from %s of %s)\n", experiment.Duration(l.all.Round(time.Second)), experiment.Duration(l.trial.Round(100*time.Millisecond)),
			printable.Counted(l.trials, "trial"), printable.Counted(l.runs, "earlier run"))
	}
	text := fmt.Sprintf("about %v, %v per trial\n", experiment.Duration(p.Expected.Round(time.Second)), experiment.Duration(p.TrialTime.Round(100*time.Millisecond)))
	if n := p.MeshChanges; n > 0 {
		text += fmt.Sprintf("%v of it to install and uninstall meshes, %s\n", experiment.Duration(time.Duration(n)*meshChange), printable.Counted(n, "time"))
	}
	return text
}

// expected is the time of all trials, as far as it is known.
func (s *Study) expected() time.Duration {
	if s.trialTimes != nil {
		return s.trialTimes.all
	}
	return s.Plan.Expected
}
