package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// Setup is the environment of the figures. A field that was not recorded is absent.
type Setup struct {
	Tare       string            `json:"tare,omitempty"`
	Platform   string            `json:"platform,omitempty"`
	OS         string            `json:"os,omitempty"`
	Kernel     string            `json:"kernel,omitempty"`
	CPUModel   string            `json:"cpu_model,omitempty"`
	CPUs       int               `json:"cpus,omitempty"`
	MemoryMB   int64             `json:"memory_mb,omitempty"`
	Governor   string            `json:"governor,omitempty"`
	Versions   map[string]string `json:"versions,omitempty"`
	Variants   map[string]string `json:"variants,omitempty"`  // of meshes, by name: origin and changes
	Generator  string            `json:"generator,omitempty"` // by name, or mixed
	Loop       string            `json:"loop,omitempty"`      // open | paced | closed | mixed
	Arrivals   string            `json:"arrivals,omitempty"`
	Way        string            `json:"way,omitempty"`        // of the load to the application, where it is not to the entry
	Background string            `json:"background,omitempty"` // services that no request calls, unless they are factors
	WarmupS    *float64          `json:"warmup_s,omitempty"`   // the shortest
	MeasureS   *float64          `json:"measure_s,omitempty"`
	Seed       uint64            `json:"seed,omitempty"`
	Faults     []string          `json:"faults,omitempty"`     // what they did: "9 of 10 replicas of server were removed"
	Executions int               `json:"executions,omitempty"` // of programs that end, in all trials
	Empty      *Empty            `json:"empty,omitempty"`      // subtracted from the times of executions, absent if nothing is
	Probe      string            `json:"probe,omitempty"`      // the work of the calibration probe, absent if none was run
	FirstStart *time.Time        `json:"first_start,omitempty"`
	LastEnd    *time.Time        `json:"last_end,omitempty"`
}

// Empty is the time of an execution of the empty program: the start and the end of a process that does nothing, ms.
type Empty struct {
	Wall stats.Interval `json:"wall_time"`
	CPU  stats.Interval `json:"cpu_time"`
}

// empty is the empty program's time over all blocks, nil if figures are not less that time.
func (run *Run) empty() *Empty {
	if !figures.NetOfEmpty(run.Records) {
		return nil
	}
	over := func(name string) stats.Interval {
		blocks := map[int][]float64{}
		for i := range run.Records {
			if v, ok := figures.EmptyFigure(&run.Records[i], name); ok {
				blocks[run.Records[i].Block] = append(blocks[run.Records[i].Block], v)
			}
		}
		var means []float64
		for _, values := range blocks {
			means = append(means, stats.Mean(values))
		}
		slices.Sort(means) // sums in one order have one result
		return stats.MeanInterval(means, run.Confidence()).Interval
	}
	return &Empty{over(metric.WallTime), over(metric.CPUTime)}
}

// Count divides the planned trials by outcome. The estimates use the Used
// trials. Planned = Used + Invalid + Failed + Missing.
type Count struct {
	Blocks  int `json:"blocks"`
	Planned int `json:"planned"`
	Used    int `json:"used"`
	Invalid int `json:"invalid"`
	Failed  int `json:"failed"`
	Missing int `json:"missing"` // not recorded: the run was interrupted, or goes on
}

// Name of the experiment.
func (run *Run) Name() string {
	if run.Plan.Experiment != "" {
		return run.Plan.Experiment
	}
	return run.File.Metadata.Name
}

func (run *Run) validByTreatment() map[string][]figures.Measured {
	by := map[string][]figures.Measured{}
	for _, t := range run.Trials {
		if t.Valid {
			by[t.Treatment] = append(by[t.Treatment], t)
		}
	}
	return by
}

// Baseline returns the baseline of the experiment file. Without one, it returns the
// levels that all baselines of the plan share and some other treatment lacks.
func (run *Run) Baseline() map[string]any {
	if len(run.File.Baseline) > 0 {
		return run.File.Baseline
	}
	isBase := map[string]bool{}
	for _, t := range run.Plan.Treatments {
		if !t.Control {
			isBase[t.Baseline] = true
		}
	}
	common := map[string]any{}
	for _, t := range run.Plan.Treatments {
		if !isBase[t.ID] {
			continue
		}
		for factor, level := range t.Factors {
			if distinguishes(run, factor, level, isBase) {
				common[factor] = level
			}
		}
	}
	return common
}

// distinguishes reports whether every baseline has this level of the factor and some other treatment another.
func distinguishes(run *Run, factor string, level any, isBase map[string]bool) bool {
	other := false
	for _, t := range run.Plan.Treatments {
		same := t.Factors[factor] == level
		if isBase[t.ID] && !same {
			return false
		}
		other = other || !same
	}
	return other
}

// Count divides the planned trials by outcome.
func (run *Run) Count() Count {
	c := Count{Blocks: run.Plan.Blocks, Planned: len(run.Plan.Trials)}
	for _, t := range run.Trials {
		switch {
		case t.Error != "":
			c.Failed++
		case !t.Valid:
			c.Invalid++
		default:
			c.Used++
		}
	}
	c.Missing = c.Planned - len(run.Trials)
	return c
}

// Setup is the environment of the trials.
func (run *Run) Setup() Setup {
	e := run.Environment
	s := Setup{
		Tare: e.Tare, Platform: e.Platform, OS: e.OS, Kernel: e.Kernel, CPUModel: e.CPUModel, CPUs: e.CPUs,
		MemoryMB: e.MemoryMB, Governor: e.Governor, Versions: e.Versions, Variants: e.Variants, Seed: run.Plan.Seed, Way: run.Plan.Way, Faults: faultsOf(run.Records), Probe: figures.ProbeWork(run.Records),
	}
	s.Empty = run.empty()
	s.Background = backgroundOf(run.Records, run.File.Platform.Kind)
	for i := range run.Records {
		r := &run.Records[i]
		s.Executions += len(r.Executions)
		if !r.Started.IsZero() && !r.Ended.IsZero() { // imports may have no times
			if s.FirstStart == nil || r.Started.Before(*s.FirstStart) {
				s.FirstStart = &r.Started
			}
			if s.LastEnd == nil || r.Ended.After(*s.LastEnd) {
				s.LastEnd = &r.Ended
			}
		}
		if l := r.Load; l != nil {
			s.load(l, r.Placing)
		}
	}
	if run.File.Platform.Kind == ImportPlatform && s.MeasureS != nil {
		// Computed as requests over their rate, so it is only exact to about a second.
		s.MeasureS = number(math.Round(*s.MeasureS))
	}
	return s
}

// backgroundOf is the background of the trials in a line, "" for none, and for factors, which treatments have.
func backgroundOf(records []result.Record, platform string) string {
	var first *result.Background
	changes, seconds := 0, 0.0
	for _, r := range records {
		if b := r.Background; b != nil && r.Load != nil {
			if first == nil {
				first = b
			}
			changes, seconds = changes+b.Changes, seconds+r.Load.MeasureSeconds
		}
		if slices.ContainsFunc(backgroundFactors, func(f backgroundFactor) bool { return r.Factors[f.name] != nil }) {
			proxies := ""
			if slices.ContainsFunc(records, func(r result.Record) bool { return r.Background != nil && r.Background.Pushes != nil }) {
				proxies = "the proxies of the background"
			}
			return simulatedParts(platform, proxies, slices.ContainsFunc(records, func(r result.Record) bool { return r.Background != nil && r.Background.Pods > 0 }))
		}
	}
	if first == nil {
		return ""
	}
	line := fmt.Sprintf("Background: %d services that no request calls", first.Services)
	if first.Pods > 0 {
		line += fmt.Sprintf(", of %d pods", first.Pods)
	}
	if first.Asked > 0 && seconds > 0 {
		line += fmt.Sprintf(", with %.3g changes per second (%v asked)", float64(changes)/seconds, first.Asked)
	}
	proxies := ""
	if first.Pushes != nil {
		proxies = fmt.Sprintf("%d proxies", first.Pushes.Proxies)
	}
	if parts := simulatedParts(platform, proxies, first.Pods > 0); parts != "" {
		line += ". " + parts
	}
	return line
}

// simulatedParts names what of a background is simulated and what is real, "" if no part is simulated. proxies are the simulated
// proxies, "" for none, and pods whether background services have pods.
func simulatedParts(platform, proxies string, pods bool) string {
	var simulated []string
	if proxies != "" {
		simulated = append(simulated, proxies+", as clients of xDS without a proxy")
	}
	objects := ""
	switch {
	case pods:
		simulated, objects = append(simulated, "the nodes of background pods, in which no program runs"), "the objects of these pods and of their endpoints, "
	case platform == mesh.OnKubernetes:
		simulated = append(simulated, "the endpoints of background services, which no pod has")
	}
	if len(simulated) == 0 {
		return ""
	}
	return "Simulated: " + strings.Join(simulated, "; ") + ". Real: " + objects + "the control plane, its streams and messages, and the proxies in the path of the load"
}

// mixed is the value of a property in which trials differ.
const mixed = "mixed"

// load takes over what all trials agree on.
func (s *Setup) load(l *result.Load, placed *result.Placing) {
	warmup := &l.WarmupSeconds
	if placed != nil {
		warmup = &placed.PlannedSeconds
	}
	if s.Generator == "" {
		s.Generator, s.Loop, s.Arrivals = l.Generator, l.Loop, l.Arrivals
		s.WarmupS, s.MeasureS = warmup, &l.MeasureSeconds
		return
	}
	if s.Generator != l.Generator {
		s.Generator = mixed
	}
	if *warmup < *s.WarmupS {
		s.WarmupS = warmup
	}
	if s.Loop != l.Loop {
		s.Loop = mixed
	}
	if s.Arrivals != l.Arrivals {
		s.Arrivals = mixed
	}
}
