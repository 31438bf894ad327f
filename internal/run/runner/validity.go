package runner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
)

// seen is the data of the validity checks.
type seen struct {
	record  *result.Record
	load    *result.Load
	limits  experiment.Validity
	open    bool               // open loop
	faults  []experiment.Fault // of the experiment
	began   time.Time          // start of the load
	seconds []second           // of the measure phase, nil if the generator does not report them
	p50     time.Duration      // response time
	stepped time.Duration      // of the wall clock during the trial
	// shift of a load with slices from the slices of the readings.
	shift        time.Duration
	slices       *load.Slices    // nil: the trial ran alone
	readingsLate []time.Duration // at the edges of slices
	work         *workSeen       // after the load of a trial of a round
	bursts       *burstsSeen     // nil: not looked for
	fall         fall            // of the CPU of a request
	cold         bool            // it is measured cold on purpose
	paced        bool            // counters have a refresh interval, and readings a time of their own
	// unsure is the step of the wall clock between the generator's start and the measure phase.
	unsure time.Duration
}

const (
	// minLateness is the p99 lateness up to which no generator is late.
	minLateness = time.Millisecond
	// grossly late is this multiple of a limit.
	grossly = 10
	// clockStep is the step of the wall clock that causes a warning.
	clockStep = 100 * time.Millisecond
	// stealShare is the share of steal time that causes a warning.
	stealShare = 0.05
	// maxSurplus is the allowed share of answers beyond the requests due in the measure phase.
	maxSurplus = 0.01
	// minSurplus answers are always allowed: requests in flight at the start of a short phase.
	minSurplus = 5
	// inFlight is how long a request of a stretch between faults may be under way at its start.
	inFlight = 100 * time.Millisecond
	// fullNode is the share of a node's CPU above which it has none free.
	fullNode = 0.95
	// starvingShare of all CPU is the use of other workloads that matters on a full node.
	starvingShare = 0.05
	// leastCPU is less than an answer over a socket costs on any processor.
	leastCPU = time.Microsecond
	// pressureShare is the share of the time with a waiting task that causes a warning.
	pressureShare = 0.5
	// throttleShare is the share of throttled time that causes a warning.
	throttleShare = 0.001
	// mostThrottled are named in a warning.
	mostThrottled = 3
)

var (
	latencies = metric.ResponseTimes()
	cpus      = metric.CPU()
	nodeCPUs  = ofNodes(metric.CostsOfCPU())
)

// ofNodes are the metrics of the nodes' CPU outside pods, and the sum of the cluster's CPU, which has it.
func ofNodes(costs []string) []string {
	return append(lists.Map(costs, func(base string) string { return metric.Of(base, string(metric.Node)) }), metric.CPUCores+"/cluster")
}

// validityCheck is one property that the figures of a trial rest on. find describes a violation, "" if
// there is none.
type validityCheck struct {
	code    string
	find    func(seen) string
	hint    string
	effect  effect
	metrics []string // it concerns, nil for all
}

// reserve is the command that leaves the load generator a CPU of its own.
const reserve = "`tare run FILE --set 'platform.cpus={load: \"0\"}'`"

// clusterHints are hints by code for clusters. Clusters choose the processors themselves.
var clusterHints = map[string]string{
	"generator-saturated": "raise load.workers, reserve nodes for the load (platform.affinity: labels, and the label tare.dev/role=load on them), or lower the rate",
	"generator-late":      "reserve nodes for the load (platform.affinity: labels, and the label tare.dev/role=load on them), raise load.workers, or lower the rate",
}

// hintOn is the check's hint for trials on a kind of platform.
func (c validityCheck) hintOn(platform string) string {
	if hint, ok := clusterHints[c.code]; ok && platform == mesh.OnKubernetes {
		return hint
	}
	return c.hint
}

// effect is the consequence of a failed check for the trial.
type effect int

const (
	warns       effect = iota // the figures are used, and marked
	withholds                 // the metrics the check concerns are not used of this trial, but the others are
	invalidates               // nothing of the trial is used
)

// checks run on every measured trial. If a code has two rows, the more severe one is
// first. If it applies, the second is skipped.
var checks = []validityCheck{
	{"changed-by-hand", changedByHand, "the report has the figures between changes by `tare services`, and the faults that repeat them; a setting of the service holds in each trial", invalidates, nil},
	{"rate-missed", rateMissed, "lower the rate, raise connections, or measure capacity with rate: max", invalidates, nil},
	{"rate-exceeded", rateExceeded, "raise phases.warmup, or lower the rate: the load must have no backlog when the measure phase begins", invalidates, nil},
	{"requests-not-conserved", notConserved, "record.json has every count (balance); docs/reference/conservation.md lists the causes", invalidates, nil},
	{"cpu-impossible", cpuImpossible, "leave CPUs free: the program's CPU was counted at other times than its answers; see the times of the readings in record.json", invalidates, nil},
	{"errors", tooManyErrors, "see the application's and the data plane's logs in the trial's provenance directory, or raise validity.errorRatio", invalidates, nil},
	{"faults-unjudged", unjudged, "use load generator tare, or a trial without faults beside it", warns, nil},
	{"response-size", wrongSize, "check that the application answers with the response size of the treatment", invalidates, nil},
	{"generator-saturated", saturated(true), "reserve a CPU for the generator (" + reserve + "), raise load.workers, or lower the rate", invalidates, nil},
	{"generator-saturated", saturated(false), "the generator, not the application, may be the limit: raise load.workers or reserve a CPU for it (" + reserve + ")", warns, []string{metric.Rate, metric.Latency, metric.ServiceTime}},
	{"generator-late", lateBy(grossly), "reserve a CPU for the generator (" + reserve + "), or lower the rate", withholds, latencies},
	{"generator-late", lateBy(1), "reserve a CPU for the generator (" + reserve + "), or lower the rate", warns, latencies},
	{"unattributed", unattributed, "stop processes that are not of the trial; if these are of the mesh, add rules for them to tasks of its definition", invalidates, nil},
	{"foreign-starves", foreignStarves, "lower the rate, add nodes, or stop the other workloads: they compete with the trial for a full node", invalidates, nil},
	{"task-missing", taskMissing, "see its log in the trial's provenance directory", invalidates, nil},
	{"restarted", restarted, "see its log in the trial's provenance directory, or raise its memory limit", invalidates, nil},
	{"throttled", generatorThrottled, "raise or remove the CPU limit of the load generator: its pauses are in the response times", withholds, latencies},
	{"throttled", throttled, "raise or remove the container's CPU limit: throttled time is latency, not CPU", warns, append(slices.Clone(latencies), cpus...)},
	{"throttling-unknown", throttlingUnknown, "use platform.meter: node-agent, check that the kubelet's cAdvisor lists the containers, or set no CPU limits", warns, latencies},
	{"readings-shifted", shiftedBeyond(grossShift), "reduce other load on the machine, or raise phases.measure: CPU and requests cover different intervals", withholds, cpus},
	{"readings-shifted", shiftedBeyond(shiftShare), "leave a CPU free, or raise phases.measure", warns, cpus},
	{"slices-shifted", slicesShifted, "lower load.connections, or use fewer treatments: the load started late", invalidates, nil},
	{"slices-overrun", slicesOverrun, "raise slices.length, or lower the rate: answers arrived more than a slice late", warns, cpus},
	{"slices-read-late", slicesLateBeyond(grossly * lateShare), "leave a CPU free, or raise slices.length: tare read the counters late", invalidates, nil},
	{"slices-read-late", slicesLateBeyond(lateShare), "raise slices.guard or slices.length, or leave a CPU free: tare read the counters late", warns, cpus},
	{"work-deferred", workDeferred, "raise phases.warmup beyond the time for which work is deferred", warns, cpus},
	{"not-warm", notWarm, "raise phases.prewarm to that time or, on a cluster, phases.warmup; phases.prewarm: 0s measures the cost of a program that has just begun", warns, cpus},
	{"cpu-bursts", fewBursts, "raise phases.measure, so that it has many of them: a burst is work of a timer, or a pause of the program", warns, cpus},
	{"clock-stepped", steppedUnsure, "wait until the clock is synchronised (NTP) before measuring", invalidates, nil},
	{"clock-stepped", stepped, "differences within the trial are correct; time stamps are not comparable with those of other machines", warns, nil},
	{"cpu-pressure", pressed, "stop other programs, or lower the rate: times of answers contain the wait for a CPU", warns, latencies},
	{"cpu-stolen", stolen, "steal time: use a machine with dedicated CPUs, or more blocks", warns, append(slices.Clone(latencies), cpus...)},
}

func (t *trial) checked() []result.Warning {
	s := t.seen
	s.record, s.load, s.limits = &t.journal.record, t.journal.record.Load, t.setup.Experiment.Validity
	s.open = t.load.profile.Rate > 0
	s.faults, s.began = t.setup.Experiment.Faults, t.load.profile.Start
	s.unsure = t.load.edges.began - t.load.edges.scheduled
	if s.slices = t.load.profile.Slices; s.slices != nil {
		s.shift = s.load.Start.Sub(t.load.profile.Start.Add(t.load.profile.Warmup))
	}
	s.paced = t.sampler != nil && t.sampler.refreshed()
	if t.sampler != nil && t.steadyLoad() {
		s.bursts = t.sampler.bursts()
	}
	s.fall, s.cold = warmer{t}.fall(), t.setup.Experiment.Phases.Prewarm == 0
	if fewBursts(s) != "" {
		t.journal.record.BurstSeconds = s.bursts.period.Seconds()
	}
	if workDeferred(s) != "" {
		t.journal.record.BurstSeconds = max(t.journal.record.BurstSeconds, s.work.lasted.Seconds())
	}
	t.load.mu.Lock()
	s.p50 = medianP50(t.load.progress)
	t.load.mu.Unlock()
	return s.warnings(t.setup.Experiment.Platform.Kind, nil)
}

// warnings makes the checks with these codes, or all without any.
func (s seen) warnings(platform string, codes []string) (warnings []result.Warning) {
	found := map[string]bool{}
	for _, c := range checks {
		if found[c.code] || codes != nil && !slices.Contains(codes, c.code) {
			continue
		}
		if message := c.find(s); message != "" {
			found[c.code] = true
			warnings = append(warnings, result.Warning{Code: c.code, Message: message, Hint: c.hintOn(platform),
				Invalidates: c.effect == invalidates, Withholds: c.effect == withholds, Metrics: c.metrics})
		}
	}
	return warnings
}

// steadyLoad reports whether the trial runs alone, under one rate and without faults.
func (t *trial) steadyLoad() bool {
	p := &t.load.profile
	return p.Slices == nil && p.Segments == nil && p.Arrivals != "replay" && len(t.setup.Experiment.Faults) == 0 && !t.setup.Experiment.Changing()
}

// medianP50 is the median over the seconds of the measure phase. It only sets a limit.
func medianP50(seconds []load.Progress) time.Duration {
	var all []float64
	for _, p := range seconds {
		if p.Phase == "measure" && p.P50MS > 0 { // 0: nothing ended in this second
			all = append(all, p.P50MS)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return time.Duration(all[len(all)/2] * float64(time.Millisecond))
}

func rateMissed(s seen) string {
	switch {
	case !s.open:
		return ""
	case s.load.Intended <= 0:
		return "the generator sent nothing in the measure phase"
	case s.suspends(experiment.RateMissed):
		return s.firstStretch(experiment.RateMissed, func(p stretch) string {
			answered := p.completed + p.after // a stretch ends a second before the fault, so that what is under way can end
			if float64(p.intended-answered) <= minSurplus+s.limits.RateShortfall*float64(p.intended) {
				return ""
			}
			return fmt.Sprintf("%d of %d requests intended %s were answered until a second later (%.2f %%, minimum %.2f %%)",
				answered, p.intended, p, 100*float64(answered)/float64(p.intended), 100*(1-s.limits.RateShortfall))
		})
	}
	// A paced generator intends no more than it can send. Its requested rate is the reference.
	intended := s.load.Intended
	if s.load.Loop == "paced" {
		intended = max(intended, int64(s.load.AskedRate*s.load.MeasureSeconds))
	}
	ended, how := s.load.Completed, "answered"
	if s.suspends(experiment.Errors) { // requests that fail are judged by the errors outside faults and changes
		ended += s.load.Classes[string(load.Conn)] + s.load.Classes[string(load.Timeout)]
		how = "answered, or failed,"
	}
	if float64(intended-ended) <= MayLack(intended, s.load.AskedRate, s.p50, s.limits) {
		return ""
	}
	got := float64(ended) / float64(intended)
	return fmt.Sprintf("%d of %d intended requests were %s within the measure phase (%.2f %%, minimum %.2f %%)",
		ended, intended, how, 100*got, 100*(1-s.limits.RateShortfall))
}

// MayLack is the number of intended requests that may lack an answer: a share, or as many more as are under way at the end by chance.
// Those under way at the start and at the end have two Poisson distributions.
func MayLack(intended int64, rate float64, p50 time.Duration, limits experiment.Validity) float64 {
	return max(limits.RateShortfall*float64(intended), 3*math.Sqrt(2*rate*p50.Seconds()))
}

// rateExceeded finds answers in the measure phase to requests that were due before it.
// Requests due in the phase did not use their CPU, and cost per request would be
// divided by too many.
func rateExceeded(s seen) string {
	if s.open && s.suspends(experiment.RateExceeded) {
		return s.firstStretch(experiment.RateExceeded, func(p stretch) string {
			surplus := p.completed - p.intended - p.held // requests that a fault held up were due in the phase
			rate := float64(p.intended) / (p.to - p.from).Seconds()
			if float64(surplus) <= max(minSurplus, maxSurplus*float64(p.intended), rate*inFlight.Seconds()) {
				return ""
			}
			return fmt.Sprintf("%d requests were due %s and %d were answered, %d more than were due until then (limit %.0f %%)",
				p.intended, p, p.completed, surplus, 100*maxSurplus)
		})
	}
	surplus := s.load.Completed - s.load.Intended
	if !s.open || s.load.Intended <= 0 || surplus <= minSurplus || float64(surplus) <= maxSurplus*float64(s.load.Intended) {
		return ""
	}
	text := fmt.Sprintf("%d requests were due in the measure phase and %d were answered in it (%.1f %% more, limit %.0f %%)",
		s.load.Intended, s.load.Completed, 100*float64(surplus)/float64(s.load.Intended), 100*maxSurplus)
	if s.load.BacklogStart != nil && s.load.BacklogEnd != nil {
		text += fmt.Sprintf("; the backlog was %d at its start and %d at its end", *s.load.BacklogStart, *s.load.BacklogEnd)
	}
	return text
}

func tooManyErrors(s seen) string {
	var all, bad int64
	for class, n := range s.load.Classes {
		if all += n; class != string(load.OK) {
			bad += n
		}
	}
	if all == 0 {
		return "no request ended in the measure phase"
	}
	where, causes := "", ": "+s.load.FailureText()
	if s.suspends(experiment.Errors) {
		all, bad, where, causes = 0, 0, " outside the faults", ""
		for _, p := range s.outside(experiment.Errors) {
			all, bad = all+p.ended, bad+p.failed
		}
	}
	if float64(bad) <= s.limits.ErrorRatio*float64(all) {
		return ""
	}
	return fmt.Sprintf("%d of %d requests%s failed (%.2f %%, limit %.2f %%)%s", bad, all, where,
		100*float64(bad)/float64(all), 100*s.limits.ErrorRatio, causes)
}

// unjudged finds faults in trials whose load is not known by the second: nothing outside the faults can be judged.
func unjudged(s seen) string {
	if s.seconds != nil || !s.suspends(experiment.RateMissed) && !s.suspends(experiment.Errors) {
		return ""
	}
	return fmt.Sprintf("generator %s reports no counts by the second: rate and errors before and after the faults were not checked", s.load.Generator)
}

func wrongSize(s seen) string {
	if n := s.load.Errors["wrong size"]; n > 0 {
		return fmt.Sprintf("%d responses had a different size than configured", n)
	}
	return ""
}

// saturated finds a generator without free CPU. In an open loop nothing of the trial is used.
func saturated(open bool) func(seen) string {
	return func(s seen) string {
		if open && !s.open || s.load.ThreadCPURatio == nil || *s.load.ThreadCPURatio <= s.limits.GeneratorCPU {
			return ""
		}
		return fmt.Sprintf("the generator's busiest thread used %.0f %% of a core, more than %.0f %%", 100**s.load.ThreadCPURatio, 100*s.limits.GeneratorCPU)
	}
}

// latenessLimit is the p99 lateness that marks a trial.
func latenessLimit(s seen) time.Duration {
	if l := time.Duration(s.limits.Lateness); l > 0 {
		return l
	}
	return max(minLateness, s.p50/10)
}

// lateness is the p99 lateness caused by the generator itself, if it is known. A request that
// waits for a connection waits for the server.
func lateness(s seen) (time.Duration, bool) {
	us := cmp.Or(s.load.OwnLatenessP99US, s.load.LatenessP99US)
	if us == nil || !s.open {
		return 0, false
	}
	return time.Duration(*us * float64(time.Microsecond)), true
}

// lateBy finds a generator that sent later than a number of times the limit.
func lateBy(times time.Duration) func(seen) string {
	return func(s seen) string {
		l, ok := lateness(s)
		if !ok || l <= times*latenessLimit(s) {
			return ""
		}
		return fmt.Sprintf("the generator sent late: p99 %v, more than %v", l.Round(time.Microsecond), latenessLimit(s))
	}
}

// cpuImpossible finds answers without the CPU to make them.
func cpuImpossible(s seen) string {
	var used int64
	read := false
	for _, task := range s.record.Tasks {
		if task.Missing == "" && (task.Plane == metric.App || task.Plane == metric.Data) {
			used, read = used+task.End.CPU-task.Start.CPU, true
		}
	}
	if !read || used >= s.load.Completed*int64(leastCPU) {
		return ""
	}
	return fmt.Sprintf("%d requests were answered, and application and data plane used %.1f ms of CPU: less than %v each",
		s.load.Completed, float64(used)/1e6, leastCPU)
}

// pressed finds a machine whose tasks wait for a CPU.
func pressed(s seen) string {
	if s.load.CPUPressure == nil || *s.load.CPUPressure <= pressureShare {
		return ""
	}
	return fmt.Sprintf("tasks waited for a CPU during %.0f %% of the measure phase (limit %.0f %%)", 100**s.load.CPUPressure, 100*pressureShare)
}

func unattributed(s seen) string {
	var all, unknown int64
	var who []string
	for _, task := range s.record.Tasks {
		if task.Missing != "" || task.Plane == metric.Node { // the share is of pods
			continue
		}
		used := task.End.CPU - task.Start.CPU
		all += used
		if task.Plane == metric.Unattributed {
			unknown += used
			who = append(who, task.ID)
		}
	}
	if float64(unknown) <= s.limits.Unattributed*float64(all) {
		return ""
	}
	return fmt.Sprintf("%.1f %% of all CPU matched no attribution rule (limit %.1f %%): %s",
		100*float64(unknown)/float64(all), 100*s.limits.Unattributed, strings.Join(who, ", "))
}

// foreignStarves finds a node without free CPU beside other workloads that use a noticeable part.
func foreignStarves(s seen) string {
	var all, foreign int64
	for _, task := range s.record.Tasks {
		if used := task.End.CPU - task.Start.CPU; task.Missing == "" {
			all += used
			if task.Plane == metric.Foreign {
				foreign += used
			}
		}
	}
	if s.record.Node == nil || float64(foreign) <= starvingShare*float64(all) {
		return ""
	}
	for _, n := range s.record.Node.Nodes {
		wall := n.End.At.Sub(n.Start.At)
		if wall <= 0 || n.CPUs < 1 {
			continue
		}
		if busy := float64(n.End.Busy-n.Start.Busy) / (float64(wall) * float64(n.CPUs)); busy > fullNode {
			return fmt.Sprintf("node %s was %.0f %% busy (limit %.0f %%), and other workloads used %.1f %% of all CPU",
				n.Name, 100*busy, 100*fullNode, 100*float64(foreign)/float64(all))
		}
	}
	return ""
}

// mayMiss are planes whose tasks are in no sum that a trial is for: a replaced node agent of tare is one.
var mayMiss = []metric.Plane{metric.Node, metric.Foreign, metric.Harness}

func taskMissing(s seen) string {
	var who []string
	for _, task := range s.record.Tasks {
		if task.Missing != "" && !slices.Contains(mayMiss, task.Plane) {
			who = append(who, task.ID+": "+task.Missing)
		}
	}
	return strings.Join(who, "; ")
}

func restarted(s seen) string {
	var who []string
	for _, task := range s.record.Tasks {
		n := task.End.Restarts - task.Start.Restarts
		if n <= 0 || task.Ended || task.Plane == metric.Foreign || replaces(s.injectedFaults(), nil, task.Plane) {
			continue
		}
		why := fmt.Sprintf("%s was restarted %s", task.ID, printable.Counted(n, "time"))
		if kills := task.End.OOMKills - task.Start.OOMKills; kills > 0 {
			why += fmt.Sprintf(", OOMKilled %s or more", printable.Counted(kills, "time"))
		}
		who = append(who, why)
	}
	return strings.Join(who, "; ")
}

// throttledTime is the time for which CPU limits stopped a container of the trial, and its share of the measure phase.
func throttledTime(task result.TaskUsage) (held time.Duration, share float64) {
	wall := task.End.At.Sub(task.Start.At)
	if task.Start.Throttled == nil || task.End.Throttled == nil || wall <= 0 || task.Ended || task.Missing != "" ||
		!slices.Contains([]metric.Plane{metric.App, metric.Data, metric.Control, metric.Load}, task.Plane) {
		return 0, 0
	}
	held = time.Duration(*task.End.Throttled - *task.Start.Throttled)
	return held, float64(held) / float64(wall)
}

func throttled(s seen) string {
	shares, who := map[string]float64{}, map[string]string{}
	for _, task := range s.record.Tasks {
		if held, share := throttledTime(task); share > throttleShare {
			shares[task.ID] = share
			who[task.ID] = fmt.Sprintf("%s %.1f %% of the time (%v)", task.ID, 100*share, held.Round(time.Millisecond))
		}
	}
	if len(who) == 0 {
		return ""
	}
	most := lists.Map(printable.MostFirst(shares), func(id string) string { return who[id] })
	return "throttled by CPU limits: " + printable.Listed(most, mostThrottled)
}

// generatorThrottled finds a generator whose pauses are a part of the response times.
func generatorThrottled(s seen) string {
	for _, task := range s.record.Tasks {
		if _, share := throttledTime(task); task.Plane == metric.Load && share > grossly*throttleShare {
			return throttled(s)
		}
	}
	return ""
}

// throttlingUnknown checks containers only: local processes have no CPU limits.
func throttlingUnknown(s seen) string {
	var who []string
	for _, task := range s.record.Tasks {
		container := task.Namespace != "" && (task.Plane == metric.App || task.Plane == metric.Data)
		if container && task.End.Throttled == nil && task.Missing == "" && !task.Ended {
			who = append(who, task.ID)
		}
	}
	return named("throttling by CPU limits is unknown for: ", who)
}

// named is a text and the tasks that it is about, "" without any.
func named(text string, tasks []string) string {
	if tasks == nil {
		return ""
	}
	return text + strings.Join(tasks, ", ")
}

const (
	// shiftShare of the measure phase between a reading and its edge causes a warning, but minShift is always
	// allowed.
	shiftShare = 0.01
	minShift   = 20 * time.Millisecond
	// grossShift is the share above which CPU figures are withheld.
	grossShift = 0.1
)

// shiftedBeyond compares the times of readings with the measure phase of the load, by the load's own clock: tare can be
// late, and so can the load.
func shiftedBeyond(limit float64) func(seen) string {
	return func(s seen) string {
		phase := s.load.End.Sub(s.load.Start)
		if s.slices != nil || s.paced || phase <= 0 {
			return ""
		}
		var worst time.Duration
		var what string
		for _, task := range s.record.Tasks {
			if task.Missing != "" || task.Ended || task.Start.At.IsZero() || task.End.At.IsZero() {
				continue
			}
			if by := task.Start.At.Sub(s.load.Start); by.Abs() > worst.Abs() {
				worst, what = by, "start"
			}
			if by := task.End.At.Sub(s.load.End); by.Abs() > worst.Abs() {
				worst, what = by, "end"
			}
		}
		if worst.Abs() <= max(minShift, time.Duration(limit*float64(phase))) {
			return ""
		}
		side := "after"
		if worst < 0 {
			side = "before"
		}
		return fmt.Sprintf("counters were read %v %s the %s of the load's measure phase (%.1f %% of it, limit %.0f %%)",
			worst.Abs().Round(time.Millisecond), side, what, 100*float64(worst.Abs())/float64(phase), 100*limit)
	}
}

const (
	// maxShift is the allowed shift of a load with slices: reading a clock twice takes microseconds.
	maxShift = time.Millisecond
	// overrunShare of answers after the next slice causes a warning.
	overrunShare = 0.01
	// lateShare is the share of the sliced time, lost by late readings, that causes a warning.
	lateShare = 0.005
	// idleShift is the share of the cost that may be missing without a warning.
	idleShift = 0.02
)

// slicesShifted compares the load's slices with the slices of the readings.
func slicesShifted(s seen) string {
	if s.slices == nil || s.shift.Abs() <= maxShift {
		return ""
	}
	return fmt.Sprintf("the load started %v after its slices did: it sent in slices of other treatments", s.shift.Round(time.Microsecond))
}

func slicesOverrun(s seen) string {
	var overrun, all int64
	for _, n := range s.load.SliceCounts {
		overrun, all = overrun+n.Overrun, all+n.Intended
	}
	if float64(overrun) <= overrunShare*float64(all) {
		return ""
	}
	return fmt.Sprintf("%d of %d requests (%.1f %%, limit %.0f %%) ended more than a slice late, beside the load of other treatments",
		overrun, all, 100*float64(overrun)/float64(all), 100*overrunShare)
}

// workDeferred warns of deferred work that is not in the cost.
func workDeferred(s seen) string {
	if s.work == nil || s.work.missing() <= idleShift {
		return ""
	}
	return fmt.Sprintf("it worked for %.1f s after the load, longer than the warm-up of %.1f s: up to %.1f %% of the cost is missing",
		s.work.lasted.Seconds(), s.work.warmup.Seconds(), 100*s.work.missing())
}

// slicesLateBeyond finds readings in the time of the next slice: its CPU up to the reading counts for the slice before.
func slicesLateBeyond(limit float64) func(seen) string {
	return func(s seen) string {
		if s.slices == nil || len(s.readingsLate) == 0 {
			return ""
		}
		free := -s.slices.Edge(0) // between the reading and the next slice
		var lost, worst time.Duration
		for _, late := range s.readingsLate {
			lost, worst = lost+max(0, late-free), max(worst, late)
		}
		share := float64(lost) / (float64(len(s.readingsLate)) * float64(s.slices.Length))
		if share <= limit {
			return ""
		}
		return fmt.Sprintf("counters were read up to %v late, and %.1f %% of the time of slices counts for the slice before (limit %.1f %%)",
			worst.Round(10*time.Microsecond), 100*share, 100*limit)
	}
}

func steppedUnsure(s seen) string {
	if s.slices != nil && s.unsure.Abs() > max(maxShift, -s.slices.Edge(0)) {
		return fmt.Sprintf("the wall clock was stepped by %v during the start of the load: loads and meters have different slices", s.unsure.Round(10*time.Microsecond))
	}
	if s.unsure.Abs() <= clockStep {
		return ""
	}
	return fmt.Sprintf("the wall clock was stepped by %v during the start of the load: generator and meters have different measure phases", s.unsure.Round(time.Millisecond))
}

func stepped(s seen) string {
	if s.stepped.Abs() <= clockStep {
		return ""
	}
	return fmt.Sprintf("the wall clock was stepped by %v during the trial", s.stepped.Round(time.Millisecond))
}

func stolen(s seen) string {
	n := s.record.Node
	if n == nil {
		return ""
	}
	wall := n.End.At.Sub(n.Start.At)
	if wall <= 0 || n.CPUs < 1 {
		return ""
	}
	share := float64(n.End.Steal-n.Start.Steal) / (float64(wall) * float64(n.CPUs))
	if share <= stealShare {
		return ""
	}
	return fmt.Sprintf("the hypervisor took %.1f %% of this machine's CPU (steal time) during the measure phase", 100*share)
}
