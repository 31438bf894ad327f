// Package session carries out the use cases of tare, between the command line and the runner. The steps go in one
// direction:
//
//   - parse.go: bytes to an experiment, its seed, order and mistakes, and its plan
//   - references.go: what the file refers to: definitions of meshes, objects, requests
//   - run.go: generators, platform and results directory, the trials, and what ends them
//
// study.go has the experiment between these steps, with the times of earlier runs. A use case that makes an experiment
// has a file of its own (ab.go, weigh.go). A session has no flags and prints nothing: options come as structs, and lines for
// the user go to [Program].Note.
package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/meter"
	"github.com/tare-mesh/tare/internal/run/runner"
)

// Study is an experiment file with everything it refers to.
type Study struct {
	Program    *Program
	Experiment *experiment.Experiment
	Plan       *plan.Plan
	Meshes     map[string]mesh.Definition // by name
	Drawn      bool                       // the file has no seed
	// NotInterleaved is why the default order is not interleaved, "" if it is, or the file has an order.
	NotInterleaved string
	// Times are the times by earlier trials, nil for the plan's.
	Times *TrialTimes
	// Notes about the file are for the person who runs it.
	Notes []string

	definitions []string // files of meshes
	unread      error    // why the objects of the application were not read
}

// PrewarmTime is the longest time that all loads before warm-ups take, which other times are without. They are for programs
// whose CPU of a request falls. 0: there are none.
func (s *Study) PrewarmTime() time.Duration {
	x := s.Experiment
	if x.Platform.Kind != mesh.OnLocal || len(x.Applications) == 0 && len(x.Application.Command) == 0 {
		return 0
	}
	return time.Duration(len(plan.Rounds(s.Plan.Trials))) * time.Duration(x.Phases.Prewarm)
}

func (s *Study) notef(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// Topologies returns the applications under test by the level of the factor application, or by "" without that factor.
func (s *Study) Topologies() (map[string]app.Topology, error) {
	all := map[string]app.Topology{}
	for _, t := range s.Plan.Treatments {
		topology, err := s.Experiment.TopologyOf(t.Levels)
		if err != nil {
			return nil, err
		}
		all[t.Levels.Application] = topology
	}
	return all, nil
}

// meshDigests returns the SHA-256 of each definition in the plan: two runs may use one name for two definitions.
func (s *Study) meshDigests() (map[string]string, error) {
	digests := map[string]string{}
	for _, t := range s.Plan.Treatments {
		name := t.Levels.Mesh
		definition, ok := s.Meshes[name]
		if _, done := digests[name]; done || !ok {
			continue
		}
		b, err := json.Marshal(definition)
		if err != nil {
			return nil, fmt.Errorf("digest of mesh %s: %w", name, err)
		}
		sum := sha256.Sum256(b)
		digests[name] = hex.EncodeToString(sum[:])
	}
	return digests, nil
}

// Variants describes the variants in the plan, by name.
func (s *Study) Variants() map[string]string {
	all := map[string]string{}
	for _, t := range s.Plan.Treatments {
		if name := t.Levels.Mesh; s.Experiment.Meshes[name].From != "" {
			all[name] = s.Experiment.Variant(name)
		}
		if name := t.Levels.Application; s.Experiment.Applications[name].From != "" || !s.Experiment.Applications[name].ObjectChanges.IsZero() {
			all[name] = s.Experiment.ApplicationChanges(name)
		}
	}
	return all
}

// options returns the options of each mesh in the plan, chosen or by default.
func (s *Study) options() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, t := range s.Plan.Treatments {
		name := t.Levels.Mesh
		d := s.Meshes[name]
		switch {
		case s.Experiment.Platform.Kind == mesh.OnLocal && d.Local != nil:
			all[name] = d.Local.Sidecar.Chosen()
		case s.Experiment.Platform.Kind == mesh.OnKubernetes && d.Kubernetes != nil:
			if complete, err := d.Kubernetes.Complete(s.Experiment.MeshSettings(name).Settings()); err == nil {
				all[name] = complete.Options
			}
		}
	}
	return all
}

func (s *Study) provides() map[string]mesh.Provides {
	all := map[string]mesh.Provides{}
	for _, t := range s.Plan.Treatments {
		all[t.Levels.Mesh] = s.Meshes[t.Levels.Mesh].Provides
	}
	return all
}

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

// mostEarlier bounds the earlier runs that are read.
const mostEarlier = 20

// Earlier opens the named runs, or the runs in runs/ of the same experiment and machine.
func (s *Study) Earlier(named []string) (runs []*result.Dir, err error) {
	now, err := s.conditions()
	if err != nil {
		return nil, err
	}
	paths := named
	if len(named) == 0 {
		plans, err := filepath.Glob(filepath.Join(result.RunsDir, "*", result.PlanFile))
		if err != nil {
			return nil, err
		}
		for _, p := range plans {
			paths = append(paths, filepath.Dir(p))
		}
	}
	for _, p := range slices.Backward(paths) { // names end with their time: the newest first
		d, err := result.Open(p)
		if err != nil {
			if len(named) > 0 {
				return runs, err
			}
			continue // a directory of another kind is not searched for
		}
		obstacles, err := compare.ConditionsOf(d).Obstacles(now)
		if err != nil || len(obstacles) > 0 || d.Plan().Experiment != s.Plan.Experiment || len(runs) == mostEarlier {
			d.Close()
			if len(named) > 0 && len(obstacles) > 0 {
				return runs, hint.Usage(fmt.Errorf("%s was run under other conditions: %s", p, obstacles[0]), "plan from a run of this experiment on this machine")
			}
			continue
		}
		runs = append(runs, d)
	}
	return runs, nil
}

// conditions returns the conditions of a run that would begin now on this machine.
func (s *Study) conditions() (compare.Conditions, error) {
	text, err := s.Experiment.YAML()
	if err != nil {
		return compare.Conditions{}, err
	}
	env := meter.Host()
	env.Platform = s.Experiment.Platform.Kind
	if env.Meshes, err = s.meshDigests(); err != nil {
		return compare.Conditions{}, err
	}
	return compare.Conditions{Name: "the plan", Environment: env, Experiment: text}, nil
}

// BlockTime returns the expected time of a block.
func (s *Study) BlockTime() time.Duration {
	return s.Plan.TrialTime * time.Duration(len(s.Plan.Treatments))
}

// aaWarmup is the warm-up of the A/A run's trials.
const aaWarmup = time.Second

// AgainstItself returns s cut down to its first baseline and that baseline's control.
func (s *Study) AgainstItself(blocks int, measure time.Duration) (*Study, error) {
	x := *s.Experiment
	x.Phases.Warmup, x.Phases.Measure, x.Phases.Soak = experiment.Duration(aaWarmup), experiment.Duration(measure), 0
	x.Blocks, x.Control, x.Faults, x.Expect = experiment.Fixed(blocks), true, nil, nil
	trial := aaWarmup + measure + time.Duration(x.Phases.Drain) + plan.Allowance
	p, err := s.Plan.AA(firstBaseline(s.Plan), &x, blocks, trial)
	if err != nil {
		return nil, err
	}
	return &Study{Program: s.Program, Experiment: &x, Plan: p, Meshes: s.Meshes}, nil
}

// firstBaseline returns the first treatment that others are compared with, or else the first of all.
func firstBaseline(p *plan.Plan) string {
	for _, t := range p.Treatments {
		if t.Baseline != "" {
			return t.Baseline
		}
	}
	return p.Treatments[0].ID
}
