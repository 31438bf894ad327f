// Package session carries out the use cases of tare, between the command line and the runner. The steps go in one
// direction, and each has a file:
//
//   - parse.go: bytes to an experiment
//   - resolve.go, references.go: what the file refers to: definitions of meshes, objects, requests, seed, order
//   - validate.go: the mistakes of the file
//   - expand.go: the plan of the experiment
//   - open.go: generators, platform, results directory
//   - run.go: the trials
//
// A use case has a file of its own if it makes an experiment (ab.go, weigh.go, aa.go) or reads earlier runs (times.go,
// detect.go, replay.go). A session has no flags and prints nothing: options come as structs, and lines for the user go to
// [Program].Note.
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

	"github.com/tare-mesh/tare/internal/base/printable"
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
