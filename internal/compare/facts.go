package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
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

// TrialTime is the time of a trial by those that ran, or else as planned.
func (run *Run) TrialTime() time.Duration {
	return cmp.Or(result.Worked(run.Records)/time.Duration(max(1, len(run.Records))), run.Plan.TrialTime)
}

// Setup is the environment of the trials.
func (run *Run) Setup() Setup {
	e := run.Environment
	s := Setup{
		Tare: e.Tare, Platform: e.Platform, OS: e.OS, Kernel: e.Kernel, CPUModel: e.CPUModel, CPUs: e.CPUs,
		MemoryMB: e.MemoryMB, Governor: e.Governor, Versions: e.Versions, Variants: e.Variants, Seed: run.Plan.Seed, Way: run.Plan.Way, Faults: faultsOf(run.Records),
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

// faultVerbs are the kinds of faults as predicates of their targets. "was" becomes "were" after a plural.
var faultVerbs = map[string]string{
	"kill": "was killed", "terminate": "was stopped", "pause": "was paused", "restart": "was restarted", "scale": "was removed",
	"latency": "answered later", "errors": "answered with errors", "rate-limit": "refused requests beyond a rate",
	"cpu-burn": "used more CPU", "memory": "held more memory", "partition": "was cut off the network",
	"packet-loss": "lost packets", "packet-delay": "got packets late", "bandwidth": "had a limited bandwidth",
}

// faultsOf describes the faults of a run by the trial with most targets: "9 of 10 replicas of server were removed".
func faultsOf(records []result.Record) (clauses []string) {
	most := 0
	for i := range records {
		all, n := faultClauses(&records[i])
		if n > most {
			clauses, most = all, n
		}
	}
	return clauses
}

// faultClauses are the faults of a trial, one clause for each kind and service, and the number of their targets.
func faultClauses(r *result.Record) (clauses []string, targets int) {
	type hit struct{ kind, of string }
	var order []hit
	hits := map[hit]map[string]bool{}
	for _, f := range r.Faults {
		for _, target := range f.Targets {
			h := hit{f.Kind, hitBy(r.Tasks, target)}
			if hits[h] == nil {
				order, hits[h] = append(order, h), map[string]bool{}
			}
			hits[h][target] = true
		}
	}
	pods := map[string]map[string]bool{} // replicas by service
	for _, t := range r.Tasks {
		if pods[t.Service] == nil {
			pods[t.Service] = map[string]bool{}
		}
		pods[t.Service][replicaOf(t)] = true
	}
	for _, h := range order {
		n, verb := len(hits[h]), faultVerbs[h.kind]
		targets += n
		service := h.of[strings.LastIndexByte(h.of, ' ')+1:]
		subject := h.of
		if all := len(pods[service]); all > 1 {
			subject = fmt.Sprintf("%d of %d replicas of %s", n, all, h.of)
		}
		if n > 1 {
			verb = strings.Replace(verb, "was ", "were ", 1)
		}
		if verb != "" {
			clauses = append(clauses, subject+" "+verb)
		}
	}
	return clauses, targets
}

// replicaOf is the replica of a task, "server-3" of "server-3/app". On a cluster its pod has a name of its own.
func replicaOf(t result.TaskUsage) string {
	return t.ID[:max(0, strings.LastIndexByte(t.ID, '/'))]
}

// hitBy names what a fault's target belongs to: a service, or a plane other than the application's. target is a replica or
// the ID of a task.
func hitBy(tasks []result.TaskUsage, target string) string {
	for _, t := range tasks {
		switch {
		case t.ID != target && replicaOf(t) != target:
		case t.ID == target && t.Plane == metric.Data:
			return "the sidecar of " + t.Service
		case t.ID == target && t.Plane == metric.Control:
			return "the control plane"
		case t.Service != "":
			return t.Service
		}
	}
	return target
}

// invalidateForeign invalidates the trials of a treatment beside which the CPU of other workloads was shown to differ from
// that beside its baseline, by more than the share that may be without attribution rule. All treatments together share
// the error of the intervals. Workloads that use the same beside both sides invalidate nothing.
func (run *Run) invalidateForeign() {
	trials := run.validByTreatment()
	tests := lists.Count(run.Plan.Treatments, func(t plan.Treatment) bool { return t.Baseline != "" })
	limit := cmp.Or(run.File.Validity.Unattributed, experiment.DefaultUnattributed)
	for _, t := range run.Plan.Treatments {
		if t.Baseline == "" {
			continue
		}
		p := run.estimator.pairs(figures.ForeignCPU, byBlock(trials[t.ID]), byBlock(trials[t.Baseline]))
		if len(p.treatment) < stats.MinN {
			continue
		}
		total := run.estimator.pairs(metric.Of(metric.CPUCores, "cluster"), byBlock(trials[t.ID]), byBlock(trials[t.Baseline]))
		if len(total.treatment) == 0 { // nodes were not read
			total = run.estimator.pairs(metric.Of(metric.CPUCores, "total"), byBlock(trials[t.ID]), byBlock(trials[t.Baseline]))
		}
		foreign := stats.Mean(p.baseline)
		allowed := limit * (foreign + stats.Mean(total.baseline))
		change := stats.PairedDifference(p.treatment, p.baseline, 1-run.estimator.alpha()/float64(tests))
		if len(total.baseline) == 0 || !(math.Abs(change.Estimate) > allowed) || change.Known() && !change.Excludes(0) {
			continue
		}
		w := figures.Warning{Code: "foreign-changed", Invalidates: true,
			Message: fmt.Sprintf("other workloads of the cluster used %.3f cores beside %s and %.3f beside its baseline (%s; limit %.3f, %.1f %% of all CPU)",
				stats.Mean(p.treatment), t.ID, foreign, differenceIn(change), allowed, 100*limit),
			Hint: "measure while they are steady, or add attribution rules if they are parts of the mesh"}
		for i := range run.Trials {
			if trial := &run.Trials[i]; trial.Treatment == t.ID && trial.Valid {
				trial.Valid, trial.Warnings = false, append(trial.Warnings, w)
			}
		}
	}
}

// differenceIn formats a difference in cores with its interval.
func differenceIn(r stats.Result) string {
	if !r.Known() {
		return fmt.Sprintf("%+.3f", r.Estimate)
	}
	return fmt.Sprintf("%+.3f, %+.3f to %+.3f", r.Estimate, *r.Low, *r.High)
}
