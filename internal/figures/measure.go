package figures

import (
	"runtime"
	"slices"

	"github.com/tare-mesh/tare/internal/base/routine"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
	"golang.org/x/sync/errgroup"
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

// MeasureOptions are the options of [Measure].
type Options struct {
	// Published reduces samples and latencies as the project that published them.
	Published bool
	// Attribute reassigns tasks to planes, in memory only. Nil means as recorded.
	Attribute func(mesh.Task) mesh.Task
	// Soak adds trends, with the intervals of a confidence. 0: none.
	Soak float64
	// File returns the path of a trial's file.
	File func(trial, name string) string
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
			rows[i], unread[i] = readRows(&records[i], o.File(records[i].ID, result.SlicesFile))
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
	dropUnlikeProbes(records, trials)
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
