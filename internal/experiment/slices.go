package experiment

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
)

// Slices are the time slices of order interleaved.
type Slices struct {
	Length Duration `yaml:"length,omitempty" json:"length,omitzero"` // default 100ms
	// Guard is the end of each slice without load: answers arrive, counters are read.
	Guard Duration `yaml:"guard" json:"guard"`
}

var defaultSlices = Slices{Length: Duration(100 * time.Millisecond), Guard: Duration(10 * time.Millisecond)}

// soakSlice is the default length in a soak: an hour of shorter slices has more readings than it needs.
const soakSlice = Duration(time.Second)

// refreshedSlice is the default length without node agents: it has three refreshes of kubelets with cAdvisor.
const refreshedSlice = Duration(time.Minute)

// Bounds of a slice. Deployments of a round are loaded for the same time, so a slice is at most as long as
// a measure phase.
const (
	minSlice = Duration(10 * time.Millisecond)
	maxSlice = Duration(time.Minute)
)

// completeSlices fills in the defaults of order interleaved.
func (f *File) completeSlices() {
	e := f.Experiment
	if e.Order != OrderInterleaved || e.Batch != nil {
		return
	}
	if !f.Has("slices.length") {
		if e.Slices.Length = sliceLength(e); e.onCluster() && !e.ByNodeAgent() {
			e.Slices.Length = refreshedSlice
		}
	}
	if !f.Has("slices.guard") {
		e.Slices.Guard = min(defaultSlices.Guard, e.Slices.Length/10)
	}
}

// interleaving lists what treatments deployed at once cannot have, each with its remedy. Rows without a
// remedy only keep interleaving from being the default.
var interleaving = []obstacle{
	{(*Experiment).onCluster, "a cluster is interleaved only with order: interleaved, because it needs node agents", ""},
	{func(e *Experiment) bool { return !e.onCluster() && e.Platform.Kind != mesh.OnLocal },
		"only platforms local and kubernetes deploy several trials at once", "write order: balanced"},
	{func(e *Experiment) bool { return e.onCluster() && e.Outside() },
		"a load from outside has no clock in common with the nodes", "remove order, or load.from"},
	{func(e *Experiment) bool { return e.onCluster() && e.Platform.Namespace != "" },
		"each treatment needs a namespace of its own", "remove order, or platform.namespace"},
	{func(e *Experiment) bool { return e.onCluster() && e.foreign() },
		"applications of others are deployed one at a time", "remove order, or use a topology"},
	{func(e *Experiment) bool {
		return e.Blocks.Until != nil && strings.HasPrefix(e.Blocks.Until.Metric, metric.PeakMemory)
	},
		"peaks of memory are those of a trial that is alone on the machine", ""},
	{func(e *Experiment) bool { return e.Load.Profile.Cycle() > 0 },
		"the rate changes with time, and answers to a burst may arrive in slices of other treatments", ""},
	{func(e *Experiment) bool { return e.Batch == nil && e.Phases.Measure%sliceLength(e) != 0 },
		"phases.measure is not a whole number of slices", ""},
	{func(e *Experiment) bool { return e.waits() > sliceLength(e)/2 },
		"answers wait longer than half of a slice, so that they would arrive in slices of other treatments", ""},
	{func(e *Experiment) bool { return len(e.Faults) > 0 },
		"a fault would also change the figures of other treatments", "remove order, or the faults"},
	{(*Experiment).Changing,
		"a change is probed all the time, and in slices of others a treatment has no load", "remove order, or the changes"},
	{func(e *Experiment) bool {
		services := backgroundOf(e).services
		return e.onCluster() && slices.Max(services) > 0
	},
		"the control planes of a cluster would know the background services of all treatments", "remove order, or background.services"},
	{changesBehind,
		"background services change all the time, also in slices of others", "remove order, or background.changes"},
	{func(e *Experiment) bool { return len(e.Expect) > 0 },
		"expectations are checked second by second, and a second has the load of several treatments", "remove order, or the expectations"},
	{limited,
		"a throttled sidecar answers in slices of other treatments", "remove order, or the limits of CPU"},
	{(*Experiment).closedLoop, "rate: max has no schedule to share", "give a rate, or remove order"},
	{(*Experiment).searches, "each treatment has a highest rate of its own, which is searched alone on the machine", "give a rate, or remove order"},
	{func(e *Experiment) bool { return otherGenerator(e) != "" }, "only the generator tare can share a schedule", "remove order, or the other generators"},
}

// sliceLength is the length of a slice on this machine: as written, or by default.
func sliceLength(e *Experiment) Duration {
	if e.Phases.Soak > 0 {
		return cmp.Or(e.Slices.Length, soakSlice)
	}
	return cmp.Or(e.Slices.Length, defaultSlices.Length)
}

// limited reports whether sidecars on this machine have limits of CPU.
func limited(e *Experiment) bool {
	return e.Platform.Kind == mesh.OnLocal && slices.ContainsFunc(e.meshes(), func(name string) bool { return e.MeshSettings(name).Resources.Limits.CPU > 0 })
}

// obstacle is a property of an experiment that an order of trials excludes, with its remedy.
type obstacle struct {
	has       func(*Experiment) bool
	why, hint string
}

// waits is the longest mean time that answers of an application wait, or 0 if an application is unknown.
func (e *Experiment) waits() Duration {
	all, err := e.Topologies()
	if err != nil {
		return 0
	}
	var most time.Duration
	for _, t := range all {
		most = max(most, t.Waits())
	}
	return Duration(most)
}

// NotInterleaved returns why the trials are not interleaved by default, or "" if nothing forbids it.
func (e *Experiment) NotInterleaved() string {
	for _, r := range interleaving {
		if r.has(e) {
			return r.why
		}
	}
	return ""
}

// ByNodeAgent reports whether node agents read the counters of a cluster, so that nothing waits for their refresh.
func (e *Experiment) ByNodeAgent() bool {
	return e.onCluster() && (e.Platform.Meter == NodeAgent || e.Platform.Meter == "" && e.Order == OrderInterleaved)
}

func (v scheduleRules) interleaved() {
	if v.e.Order != OrderInterleaved {
		if v.doc.Has("slices") {
			v.report("slices", "write order: interleaved", "slices need order interleaved")
		}
		return
	}
	if why, hint := refusal(v.e); why != "" {
		v.report("order", hint, "the treatments cannot be interleaved: %s", why)
	}
	if v.sideBySide(); v.e.Batch != nil { // whole executions
		return
	}
	s := v.e.Slices
	if s.Guard < 0 || s.Guard > s.Length/2 {
		v.report("slices.guard", "a tenth of the length is usual", "%v is not between 0 and half of a slice (%v)", s.Guard, s.Length/2)
	}
	if s.Length >= minSlice && v.e.Phases.Measure%s.Length != 0 {
		v.report("phases.measure", "write a multiple of "+s.Length.String(), "%v is not a whole number of slices of %v", v.e.Phases.Measure, s.Length)
	}
}

// refusal returns the first reason with a remedy why the trials cannot be interleaved, or "" if there is none.
func refusal(e *Experiment) (why, hint string) {
	for _, r := range interleaving {
		if r.hint != "" && r.has(e) {
			return r.why, r.hint
		}
	}
	return "", ""
}

// sideBySide refuses meshes that cannot be in one cluster at the same time.
func (v scheduleRules) sideBySide() {
	if !v.e.onCluster() {
		return
	}
	var all []mesh.Definition
	for _, name := range v.e.meshes() {
		if d, ok := v.definition(name); ok {
			all = append(all, d)
		}
	}
	if err := mesh.Coexist(all...); err != nil {
		v.report("order", "write order: by-mesh, one batch per mesh", "the treatments cannot be interleaved: %v", err)
	}
}
