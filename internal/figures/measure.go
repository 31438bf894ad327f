// Package figures computes the metrics of each trial from its record, its latency log and its slices.
// Unknown figures are absent, never zero, and so is every sum with them. Histograms are added up.
// Percentiles are never averaged. What a trial lacks is among its warnings.
package figures

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tare-mesh/tare/internal/base/execution"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/stats"
)

// ForeignCPU is the metric of the CPU of other workloads on the cluster.
var ForeignCPU = metric.Of(metric.CPUCores, string(metric.Foreign))

// Warning is kept with the figures it concerns, and has a hint.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Trials it was seen in. 0 means that it is not about single trials.
	Trials int `json:"trials,omitempty"`
	// Invalidates marks a trial excluded by the warning.
	Invalidates bool `json:"invalidates,omitempty"`
	// Withholds marks metrics that were left out of this trial.
	Withholds bool `json:"withholds,omitempty"`
	// Metrics it concerns, by base name ("latency_ms") or full name. Empty means all.
	Metrics []string `json:"metrics,omitempty"`
}

// Trial is one recorded trial with its metrics. What could not be known is
// absent from Metrics.
type Trial struct {
	ID        string             `json:"id"`
	Ordinal   int                `json:"ordinal"`
	Block     int                `json:"block"`
	Treatment string             `json:"treatment"`
	Factors   plan.Factors       `json:"factors"`
	Control   bool               `json:"control,omitempty"`
	Valid     bool               `json:"valid"`
	Error     string             `json:"error,omitempty"`
	Metrics   map[string]float64 `json:"metrics"`
	Warnings  []Warning          `json:"warnings"`
	Trends    []Trend            `json:"trends,omitempty"` // with phases.soak
	// ChangeParts are the parts of changes, as the mesh counts them.
	ChangeParts []ChangeParts `json:"change_parts,omitempty"`
	// ControlTimes are stages of a control plane, as it counts them.
	ControlTimes []result.ControlTime `json:"control_times,omitempty"`
	// HandPhases are the times between changes by hand.
	HandPhases []HandPhase `json:"hand_phases,omitempty"`
}

// Measured is a trial with the figures that its report does not list.
type Measured struct {
	Trial
	// Roles are the parts of data and control plane, each with its figures by base name.
	Roles map[TaskRole]map[string]float64
	// Slices are the CPU of each own slice of an interleaved trial, by part.
	Slices SliceCosts
	// Limits are the known limits of figures, by metric.
	Limits map[string]Limit
}

type Options struct {
	// Published reduces samples and latencies as the project that published them.
	Published bool
	// Attribute reassigns tasks to planes, in memory only. Nil means as recorded.
	Attribute func(mesh.Task) mesh.Task
	// Soak adds trends, with the intervals of a confidence. 0: none.
	Soak float64
	// File returns the path of a trial's file.
	File func(trial, name string) string
	// Slices are those that were read already, by trial.
	Slices map[string][]result.Slice
}

// Measure computes the metrics of every trial of a run, in the order of the records. It works on many trials at a time:
// decoding latency logs is most of the work of a report. No trial fails it: what a trial lacks is among its warnings.
func Measure(environment result.Environment, records []result.Record, o Options) []Measured {
	separateNodes(records)
	reattribute(records, o.Attribute)
	trials := make([]Measured, len(records))
	unsummed := makeUp(environment, records)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	rows, unread := make([][]result.Slice, len(records)), make([]error, len(records))
	for i := range records {
		group.Go(routine.Guarded(func() error {
			r := &records[i]
			if rows[i] = o.Slices[r.ID]; rows[i] == nil || !divides(r) {
				rows[i], unread[i] = readRows(r, o.File(r.ID, result.SlicesFile))
			}
			return nil
		}))
	}
	_ = group.Wait()
	divided, net := divide(records, rows), NetOfEmpty(records)
	for i := range records {
		group.Go(routine.Guarded(func() error {
			r := &records[i]
			f := trialFigures(r, o.Published)
			if net {
				f.subtractEmpty(r)
			}
			latencyFigures(f, r, o.File(r.ID, result.LatencyFile), o.Published)
			requestFigures(f, r)
			streamFigures(f, r)
			failureFigures(f, r, o.File(r.ID, result.LatencyFile))
			changeFigures(f, r)
			startFigures(f, r)
			costs := sliceFigures(f, &divided[i], unread[i])
			var trends []Trend
			if o.Soak > 0 {
				trends = trendFigures(f, r, o.File(r.ID, result.LatencyFile), o.Soak)
			}
			if w := divided[i].withheld; w != nil {
				f.warnings, f.withheld = append(f.warnings, *w), slices.Concat(f.withheld, w.Metrics)
			}
			f.withhold(r.Warnings)
			f.unsum(unsummed[i])
			trials[i] = Measured{Roles: f.roles, Slices: costs, Limits: divided[i].limitsOf(f.values), Trial: Trial{
				ID: r.ID, Ordinal: r.Ordinal, Block: r.Block, Treatment: r.Treatment, Factors: r.Factors, Control: r.Control,
				Valid: r.Valid && r.Error == "", Error: r.Error, Metrics: f.values,
				Warnings: append(append([]Warning{}, recorded(r)...), f.warnings...),
				Trends:   f.shown(trends), ChangeParts: changeParts(r), ControlTimes: r.ControlTimes,
				HandPhases: handPhases(r, o.File(r.ID, result.LatencyFile)),
			}}
			return nil
		}))
	}
	_ = group.Wait() // none of them can fail
	noForeign(records, trials)
	return trials
}

// noForeign adds zeros to trials without workloads of others, if other trials of the run had some.
func noForeign(records []result.Record, trials []Measured) {
	if !slices.ContainsFunc(records, func(r result.Record) bool { return has(r.Tasks, metric.Foreign) }) {
		return
	}
	for i, r := range records {
		if len(r.Tasks) > 0 && r.Error == "" && !has(r.Tasks, metric.Foreign) {
			trials[i].Metrics[ForeignCPU], trials[i].Metrics[metric.Of(metric.Memory, string(metric.Foreign))] = 0, 0
		}
	}
}

// separateNodes gives the tasks of nodes outside pods their own plane. Records made
// before that plane existed have them in the platform plane. It changes memory only.
func separateNodes(records []result.Record) {
	for i := range records {
		for j := range records[i].Tasks {
			t := &records[i].Tasks[j].Task
			if t.Plane == metric.Platform && t.Namespace == "" && (t.Role == mesh.RoleDaemon || t.Role == mesh.RoleRemainder) {
				t.Plane = metric.Node
			}
		}
	}
}

// reattribute changes the planes of recorded tasks, in memory only. The warnings of the run remain.
func reattribute(records []result.Record, attribute func(mesh.Task) mesh.Task) {
	if attribute == nil {
		return
	}
	for i := range records {
		for j := range records[i].Tasks {
			t := &records[i].Tasks[j]
			t.Task = attribute(t.Task)
		}
		if s := records[i].Sampled; s != nil {
			for j := range s.Tasks {
				s.Tasks[j] = attribute(s.Tasks[j])
			}
		}
	}
}

// recorded are the warnings the run itself attached to the trial.
func recorded(r *result.Record) []Warning {
	return lists.Map(r.Warnings, func(w result.Warning) Warning {
		return Warning{Code: w.Code, Message: w.Message, Hint: w.Hint, Invalidates: w.Invalidates, Withholds: w.Withholds, Metrics: w.Metrics}
	})
}

// distrusted are the warnings about records that were changed or contradict
// themselves, over all trials. Each names a trial.
func Distrusted(trials []Measured) []Warning {
	var t Tally
	for _, trial := range trials {
		for _, w := range trial.Warnings {
			if slices.Contains([]string{result.RecordContradicts, result.RecordAltered, result.LatencyAltered}, w.Code) {
				t.Add(trial.ID, w)
			}
		}
	}
	var ws []Warning
	for _, code := range t.order {
		e := t.seen[code]
		others := ""
		if e.Trials > 1 {
			others = fmt.Sprintf(" and %d others", e.Trials-1)
		}
		w := e.Warning
		w.Message = fmt.Sprintf("trial %s%s: %s", e.first, others, w.Message)
		ws = append(ws, w)
	}
	return ws
}

// tally adds up warnings of trials: one entry a code, in order of appearance,
// with the number of trials and the first message as the example.
type Tally struct {
	order []string
	seen  map[string]*tallied
}

type tallied struct {
	Warning
	first  string // the trial of the message
	differ bool   // other trials have other messages
	last   string
}

// add counts w once a trial.
func (t *Tally) Add(trial string, w Warning) {
	if t.seen == nil {
		t.seen = map[string]*tallied{}
	}
	e := t.seen[w.Code]
	if e == nil {
		e = &tallied{Warning: w, first: trial}
		e.Metrics = slices.Clone(w.Metrics)
		t.seen[w.Code] = e
		t.order = append(t.order, w.Code)
	}
	if w.Message != e.Message {
		e.differ = true
	}
	if severity(w) > severity(e.Warning) { // one code has several limits: the message is of the one that matters
		e.Message, e.Hint, e.Withholds, e.Invalidates, e.first = w.Message, w.Hint, w.Withholds, w.Invalidates, trial
	}
	if len(w.Metrics) == 0 || len(e.Metrics) == 0 {
		e.Metrics = nil
	}
	for _, m := range w.Metrics {
		if e.Metrics != nil && !slices.Contains(e.Metrics, m) {
			e.Metrics = append(e.Metrics, m)
		}
	}
	if e.last != trial {
		e.Trials++
		e.last = trial
	}
}

// severity orders the effects of a warning on its trial.
func severity(w Warning) int {
	switch {
	case w.Invalidates:
		return 2
	case w.Withholds:
		return 1
	}
	return 0
}

func (t *Tally) Warnings() []Warning {
	ws := make([]Warning, 0, len(t.order))
	for _, code := range t.order {
		e := t.seen[code]
		w := e.Warning
		if e.differ {
			w.Message = fmt.Sprintf("%s (trial %s, for one)", w.Message, e.first)
		}
		ws = append(ws, w)
	}
	return ws
}

// concerns reports whether w is about a metric. One about every metric is listed with
// the treatment and is not repeated here.
func Concerns(w Warning, name string) bool {
	return len(w.Metrics) > 0 && NamesMetric(w.Metrics, name)
}

// about reports whether metrics, as base or full names, names the metric. An
// empty list names every metric.
func NamesMetric(metrics []string, name string) bool {
	return len(metrics) == 0 || slices.Contains(metrics, name) || slices.Contains(metrics, metric.Base(name))
}

// union is a and the warnings of b with other codes.
func UnionWarnings(a, b []Warning) []Warning {
	out := slices.Clone(a)
	for _, w := range b {
		if !slices.ContainsFunc(out, func(o Warning) bool { return o.Code == w.Code }) {
			out = append(out, w)
		}
	}
	return out
}

// executionMetrics are the figures of an execution, each in the unit of its metric. An import may lack times and peaks, and has no
// output and no floor.
var executionMetrics = []struct {
	name  string
	known func(execution.Reading) bool
	of    func(execution.Reading) float64
	net   bool // of the empty program
}{
	{metric.WallTime, timed, func(x execution.Reading) float64 { return float64(x.Wall) / 1e6 }, true},
	{metric.CPUTime, timed, func(x execution.Reading) float64 { return float64(x.User+x.System) / 1e6 }, true},
	{metric.UserTime, timed, func(x execution.Reading) float64 { return float64(x.User) / 1e6 }, true},
	{metric.SystemTime, timed, func(x execution.Reading) float64 { return float64(x.System) / 1e6 }, true},
	{metric.PeakOfExecution, func(x execution.Reading) bool { return x.Peak > 0 }, func(x execution.Reading) float64 { return float64(x.Peak) / mib }, false},
	{metric.OutputSize, func(x execution.Reading) bool { return x.Floor > 0 }, func(x execution.Reading) float64 { return float64(x.Output) / 1024 }, false},
}

func timed(x execution.Reading) bool { return x.Wall > 0 }

// shortExecution is the time of an execution below which the empty program's is subtracted: it is then a tenth of it or more.
const shortExecution = 5 * time.Millisecond

// NetOfEmpty reports whether the figures of a run have the empty program subtracted: if an execution in the first block with readings
// is short. The shortest one counts, since other programs delay the others. Later blocks change nothing, so that all looks at a run have
// the same metric.
func NetOfEmpty(records []result.Record) bool {
	first, shortest := 0, int64(math.MaxInt64)
	for i := range records {
		r := &records[i]
		if len(r.Empty) == 0 || first != 0 && r.Block > first {
			continue
		}
		for _, x := range r.Executions {
			if x.Exit != 0 || !timed(x) {
				continue
			}
			if r.Block != first {
				first, shortest = r.Block, x.Wall
			}
			shortest = min(shortest, x.Wall)
		}
	}
	return time.Duration(shortest) < shortExecution
}

// EmptyFigure is the mean of a figure over the executions of the empty program. It is not ok without any.
func EmptyFigure(r *result.Record, name string) (mean float64, ok bool) {
	for _, m := range executionMetrics {
		if m.name == name && m.net && len(r.Empty) > 0 {
			for _, x := range r.Empty {
				mean += m.of(x) / float64(len(r.Empty))
			}
			return mean, true
		}
	}
	return 0, false
}

// benchmarkMetrics are the figures of a Go benchmark, by its unit, and the scale to the unit of the metric.
var benchmarkMetrics = []struct {
	name, unit string
	scale      float64
}{{metric.BenchmarkTime, "sec/op", 1e9}, {metric.BenchmarkBytes, "B/op", 1}, {metric.BenchmarkAllocs, "allocs/op", 1}}

// subtractEmpty makes figures those above the empty program's in the same block. Their spread between blocks then has the error of both.
func (f *figures) subtractEmpty(r *result.Record) {
	for _, m := range executionMetrics {
		v, known := f.values[m.name]
		empty, read := EmptyFigure(r, m.name)
		switch {
		case !known || !m.net:
		case read:
			f.set(m.name, v-empty)
		default:
			delete(f.values, m.name)
		}
	}
}

// executionFigures are the means over the executions of a trial that did not fail.
func executionFigures(f *figures, r *result.Record) {
	sums, benchmarks, n, hidden, floor := map[string]float64{}, map[string][]float64{}, 0.0, 0, int64(0)
	for _, x := range r.Executions {
		if x.Exit != 0 {
			continue
		}
		n++
		for _, m := range executionMetrics {
			if m.known(x) {
				sums[m.name] += m.of(x)
			}
		}
		for name, units := range x.Benchmarks {
			for _, b := range benchmarkMetrics {
				if v, ok := units[b.unit]; ok {
					benchmarks[metric.Of(b.name, name)] = append(benchmarks[metric.Of(b.name, name)], v*b.scale)
				}
			}
		}
		if x.Floor > 0 && x.Peak <= x.Floor {
			hidden, floor = hidden+1, max(floor, x.Floor)
		}
	}
	f.set(metric.ErrorRatio, 1-n/float64(len(r.Executions)))
	if hidden > 0 {
		delete(sums, metric.PeakOfExecution)
		f.warn("peak-hidden", []string{metric.PeakOfExecution}, fmt.Sprintf("the peak of memory of %d of %d executions is below %d MiB, the memory of the program that starts them: it is unknown",
			hidden, len(r.Executions), floor/mib), "a process has at least the memory of the one that starts it; larger inputs have larger peaks")
	}
	for name, sum := range sums {
		f.set(name, sum/n)
	}
	for name, values := range benchmarks {
		f.set(name, stats.Mean(values))
	}
}

// causes are the codes of warnings in a few words, for places without a message: "invalid: {words}", "unknown: {words}".
var causes = map[string]string{
	// of a trial
	"failed": "the trial failed", "verify-failed": "a check of the deployment failed", "not-verified": "the deployment was not checked", "verified-with-caution": "a check has a caution",
	"placement-differs": "pods share nodes in another way", "original-runs": "the copied application runs beside its copy", "came-and-went": "containers of others started and ended",
	"task-died": "a process ended", "task-missing": "a process was missing", "restarted": "a process restarted", "node-lost": "a node was lost", "cluster-lost": "another run took over the cluster",
	"rate-missed": "fewer answers than the rate", "rate-exceeded": "a backlog from the warm-up", "capacity-unknown": "no rate meets the objective", "capacity-open": "every rate meets the objective",
	"requests-not-conserved": "requests do not add up", "errors": "too many failures", "response-size": "answers of another size", "no-answers": "no request was answered",
	"cpu-impossible": "too little CPU for the answers", "changed-by-hand": "changed by hand", "faults-unjudged": "the generator counts nothing by the second",
	"generator-late": "the generator sent late", "generator-saturated": "the generator was at its limit", "load-unknown": "the generator left no report",
	"warm-up-raised": "the warm-up was lengthened", "measure-short": "measured for too short a time", "not-warm": "programs were not warm",
	"counters-paced": "counters are refreshed seldom", "node-paced": "counters of nodes are refreshed seldom", "meter-gap": "counters were unreadable for a while",
	"not-settled": "CPU was used before the load", "not-drained": "CPU was used after the load", "unattributed": "CPU of unknown tasks", "tasks-differ": "trials have different tasks",
	"foreign-starves": "other workloads filled a node", "foreign-changed": "other workloads used more or less CPU", "readings-shifted": "CPU was read late",
	"slices-shifted": "the load started late", "slices-overrun": "requests ended in the next slice", "slices-read-late": "slices were read late", "slices-unread": "slices are unreadable", "round-incomplete": "the run was killed in a round",
	"idle-unclear": "idle CPU is unclear", "quiet-longer": "the load began later", "work-deferred": "requests defer work", "cpu-bursts": "CPU came in bursts",
	"clock-stepped": "the clock was set", "throttled": "CPU limits stopped containers", "throttling-unknown": "effect of CPU limits unknown", "cpu-pressure": "tasks waited for a CPU", "cpu-stolen": "the hypervisor took CPU",
	"node-unread": "the machine's CPU was unreadable", "node-unknown": "CPU of nodes unknown", "node-counters": "the machine's CPU counter went back",
	"task-counters": "a CPU counter went back", "task-unread": "a process was not read", "tasks-unknown": "no process was read", "mesh-uncounted": "the proxies' counters were unreadable",
	"latency-missing": "no log of response times", "latency-damaged": "log of response times unreadable", "latency-count": "log of response times incomplete", "latency-altered": "log of response times was changed",
	"record-contradicts": "the record contradicts itself", "record-altered": "the record was changed", "not-a-number": "a figure is not a number",
	"too-few-requests": "too few requests for a high percentile", "peak-hidden": "the peak of memory is too small", "failures-unplaced": "time of failures unknown",
	"change-cpu-saved": "failed requests saved CPU", "change-cpu-late": "changes took too long", "change-unfinished": "changes did not end", "change-unlearned": "connections never changed", "proxy-unreached": "a simulated proxy received no change", "not-recovered": "requests failed until the end",
	// of a report
	"foreign-workloads": "other workloads ran", "answers-differ": "treatments got other answers", "treatments-same": "two treatments ran alike", "aa-differs": "the baseline differs from itself", "no-floor": "noise not measured",
	"effect-drifts": "the difference drifts", "pairs-dependent": "blocks depend on one another", "outlier-block": "one block differs from all others", "outside-differs": "CPU outside the trial differs",
	"failed-trials": "trials failed", "invalid-trials": "trials are invalid", "missing-trials": "trials are missing", "few-trials": "too few trials", "pairs-lost": "blocks lack one side", "unknown-in-trials": "unknown in some trials",
	"within-deployments": "too few deployments", "memory-grows": "memory was still growing", "no-spread": "all values are equal", "ratio-undefined": "a value is zero or negative", "no-interval": "no interval", "width-not-reached": "the interval is wider than requested",
	"unequal-meshes": "features differ between meshes", "meshes-once": "meshes one after another", "meshes-in-turns": "mesh batches", "not-a-line": "the cost is not a line", "no-baseline": "no baseline", "not-interleaved": "measured one after another",
	"not-comparable": "the runs cannot be compared", "baseline-moved": "the baseline changed too", "without-partner": "a treatment is in one run only", "trials-lost": "trials are unused", "few-runs": "too few runs", "unknown-on-one-side": "known in one run only", "same-run": "the same run twice",
	// of an import
	"other-mesh": "metrics of another mesh", "other-rate": "files of another rate", "other-run": "files of another run", "overlap": "two runs at the same time", "clock-jumped": "the clock was set forward", "too-short": "the run is too short", "generators-apart": "generators ran for different times",
	"false-timeouts": "idle connections counted as timeouts", "no-success": "no request succeeded", "rate-unreached": "sent less than the rate", "latency-from-send": "response times count from the send", "load-unseen": "no row of the generator", "logs-missing": "no log of the generator", "loop-unknown": "rate unknown", "metrics-missing": "no metrics",
	"planes-mixed": "sums with sidecars", "node-of-pods": "no kernel and daemons", "few-readings": "few readings", "repeated-readings": "repeated readings", "readings-unknown": "repeated readings unknown", "samples-missing": "samples are missing", "quantiles-apart": "quantiles of several generators", "source-note": "a note of the source", "unknown-columns": "unknown columns",
}

// Cause is the code of a warning in a few words. Some codes end with the name of a generator. Other words are as they are.
func Cause(code string) string {
	switch words := causes[code]; {
	case words != "":
		return words
	case strings.HasPrefix(code, "warm-up-raised-"):
		return causes["warm-up-raised"]
	case strings.HasPrefix(code, "generator-"):
		return "the generator defines figures in another way"
	}
	return code
}
