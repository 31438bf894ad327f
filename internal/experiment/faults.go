package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/expect"
)

// Fault is one fault of the timeline: its kind, time, duration and target.
type Fault struct {
	Kind     string      `yaml:"kind" json:"kind"`                            // see FaultKinds
	At       Duration    `yaml:"at" json:"at"`                                // from the start of the measure phase
	Every    Duration    `yaml:"every,omitempty" json:"every,omitzero"`       // between repetitions
	Count    int         `yaml:"count,omitempty" json:"count,omitempty"`      // how often, default 1
	For      Duration    `yaml:"for,omitempty" json:"for,omitzero"`           // until it is healed, or until the trial ends if 0
	Recovery Duration    `yaml:"recovery,omitempty" json:"recovery,omitzero"` // after the heal, in which checks are still suspended
	Target   FaultTarget `yaml:"target,omitempty" json:"target,omitempty"`    // what it hits
	// Parameters. Each kind has its own, see FaultKinds, and faultParameters has their meaning.
	Grace  Duration `yaml:"grace,omitempty" json:"grace,omitzero"`
	By     int      `yaml:"by,omitempty" json:"by,omitempty"`
	Delay  Duration `yaml:"delay,omitempty" json:"delay,omitzero"`
	Ratio  float64  `yaml:"ratio,omitempty" json:"ratio,omitempty"`
	Status int      `yaml:"status,omitempty" json:"status,omitempty"`
	Rate   float64  `yaml:"rate,omitempty" json:"rate,omitempty"`
	CPU    Duration `yaml:"cpu,omitempty" json:"cpu,omitzero"`
	Memory Size     `yaml:"memory,omitempty" json:"memory,omitempty"`
}

// FaultTarget selects the tasks of a fault.
type FaultTarget struct {
	Service string `yaml:"service,omitempty" json:"service,omitempty"` // default: the entry
	Replica *int   `yaml:"replica,omitempty" json:"replica,omitempty"` // that one, from 0
	Pick    string `yaml:"pick,omitempty" json:"pick,omitempty"`       // first (default), random or all of the tasks without a fault
	Plane   string `yaml:"plane,omitempty" json:"plane,omitempty"`     // app (default), data or control
}

// Ability is an action that a kind of fault needs of a platform.
type Ability string

// Abilities that kinds of faults need.
const (
	EndTasks       Ability = "end tasks"
	SuspendTasks   Ability = "suspend tasks"
	ScaleServices  Ability = "change the number of replicas"
	ChangeServices Ability = "change running services"
	ImpairNetworks Ability = "impair the network of a pod"
)

func Abilities() []Ability {
	return []Ability{EndTasks, SuspendTasks, ScaleServices, ChangeServices, ImpairNetworks}
}

// Checks that faults suspend, by the code of their warning.
const (
	RateMissed   = "rate-missed"
	RateExceeded = "rate-exceeded"
	Errors       = "errors"
	Restarted    = "restarted"
)

// FaultKind describes a kind of fault: its parameters, what it needs, and what it does to the validity of a trial.
type FaultKind struct {
	Name, Doc string
	Required  []string // parameters
	Optional  []string // parameters
	AppOnly   bool     // applies only to the application plane
	Ability   Ability
	// Suspends are the checks that are off from a second before the injection until Recovery after the heal.
	// Restarts are counted for a whole trial, so that the check Restarted is off for its length.
	Suspends []string
	Recovery Duration // default
}

const byHint = "by: -1 removes one replica"

var (
	faultPlanes = []string{"app", "data", "control"}
	faultPicks  = []string{"first", "random", "all"}
)

type faultRules struct{ validation }

const (
	defaultGrace   = Duration(5 * time.Second)
	defaultStatus  = 500
	maxFaults      = 1000
	maxFaultDelay  = Duration(60e9)
	maxFaultMemory = Size(64 << 30)
	maxExpect      = 200
)

func (v faultRules) validate() {
	if len(v.e.Faults) > maxFaults {
		v.report("faults", "use every and count", "%d faults, more than %d", len(v.e.Faults), maxFaults)
		return
	}
	for i, f := range v.e.Faults {
		v.fault(fmt.Sprintf("faults[%d]", i), f)
	}
	if len(v.e.Expect) > maxExpect {
		v.report("expect", "", "%d conditions, more than %d", len(v.e.Expect), maxExpect)
		return
	}
	for i, text := range v.e.Expect {
		v.expectation(fmt.Sprintf("expect[%d]", i), text)
	}
}

func (v faultRules) expectation(path, text string) {
	c, err := expect.Parse(text)
	syntax, wrong := errors.AsType[strict.Problem](err)
	switch {
	case wrong:
		v.report(path, syntax.Tip, "character %d: %s", syntax.Column, syntax.Message)
	case err != nil:
		v.report(path, "", "%v", err)
	case v.changes(path, c):
	case c.NeedsStarts() && v.e.Starts == 0:
		v.report(path, "add starts: 5", "it refers to starts, and the experiment has none")
	case c.Begins() >= time.Duration(v.e.Phases.Measure):
		v.report(path, "raise phases.measure, or lower the time", "its window begins after %v, and the measure phase has ended after %v", c.Begins(), v.e.Phases.Measure)
	case c.NeedsFault() && len(v.e.Faults) == 0:
		v.report(path, "add faults, or remove the window around a fault", "it refers to a fault, and the experiment has none")
	}
}

// changes reports an expectation of changes that no trial can meet, and whether it is one.
func (v faultRules) changes(path string, c expect.Condition) bool {
	kind, least, about := c.Changes()
	if !about {
		return false
	}
	made := v.e.Changes
	n := made.Count
	if kind != "" {
		n /= max(1, len(made.Kinds))
	}
	switch {
	case !v.e.Changing():
		v.report(path, "add changes: {every: 500ms}", "it refers to changes, and the experiment has none")
	case kind != "" && !slices.Contains(made.Kinds, kind):
		v.report(path, "kinds of this experiment: "+strings.Join(made.Kinds, ", "), "changes has no kind %q", kind)
	case least == math.MaxInt:
		v.report(path, "write < 1%", "no number of changes shows that none ever fails")
	case n < least:
		v.report(path, fmt.Sprintf("raise changes.count to %d", least*max(1, made.Count/max(1, n))), "it cannot hold with %d changes in a trial: it needs %d", n, least)
	}
	return true
}

func (v faultRules) fault(path string, f Fault) {
	kind, known := FaultKindOf(f.Kind)
	if !known {
		v.check(path+".kind", f.Kind, oneOf("fault", faultKindNames()...))
		return
	}
	for _, p := range faultParameters() {
		under := path + "." + p.path
		switch set := v.doc.Has(under); {
		case set && !kind.has(p.path):
			v.report(under, "", "fault %s has no %s", kind.Name, p.path)
		case !set && slices.Contains(kind.Required, p.path):
			v.report(path, "add "+p.path+": …", "fault %s needs %s", kind.Name, p.path)
		}
	}
	if v.doc.Has(path+".by") && f.By == 0 {
		v.report(path+".by", byHint, "found 0")
	}
	v.faultTimes(path, f, kind)
	v.faultTarget(path+".target", f.Target, kind)
	v.faultReplicas(path, f)
}

func (v faultRules) faultTimes(path string, f Fault, kind FaultKind) {
	if !v.doc.Has(path + ".at") {
		v.report(path, "add at: 5s, counted from the start of the measure phase", "it has no time")
	}
	v.check(path+".at", f.At, between(0, v.e.Phases.Measure, "it is counted from the start of the measure phase"))
	within := between(0, v.e.Phases.Measure, "")
	v.check(path+".every", f.Every, within)
	v.check(path+".for", f.For, within)
	v.check(path+".recovery", f.Recovery, within)
	if f.Count > 1 && f.Every <= 0 {
		v.report(path+".count", "add every: 10s", "it is repeated, and there is no time between")
	}
	if f.Every > 0 && f.Count < 2 {
		v.report(path+".every", "add count: 2, or more", "it is not repeated")
	}
	if last := float64(f.At) + float64(max(0, f.Count-1))*float64(f.Every); f.Count > 1 && last > float64(v.e.Phases.Measure) {
		v.report(path+".count", "raise phases.measure, or lower count", "the last one comes after the measure phase has ended")
	}
	if kind.Name == "restart" && f.For != 0 {
		v.report(path+".for", "use kill with for", "a restart heals itself")
	}
}

func (v faultRules) faultTarget(path string, t FaultTarget, kind FaultKind) {
	t = Fault{Target: t}.Defaults().Target
	if kind.AppOnly && t.Plane != "app" {
		v.report(path+".plane", "remove it", "fault %s hits the application, not the %s plane", kind.Name, t.Plane)
	}
	if t.Replica != nil && v.doc.Has(path+".pick") {
		v.report(path+".pick", "remove one of the two", "a replica is named as well")
	}
	if !v.doc.Sound("application") || t.Plane == "control" {
		return
	}
	topologies, err := v.e.Topologies()
	if err != nil || t.Service == "" {
		return
	}
	if t.Service == app.LoadName && t.Plane == "data" {
		return // the load generator's own sidecar
	}
	for _, topology := range topologies {
		v.check(path+".service", t.Service, oneOf("service", lists.Map(topology.Services, func(s app.Service) string { return s.Name })...))
	}
}

// Action describes what the fault does, with its parameters: "scale by -1", "errors ratio 0.5 status 503".
func (f Fault) Action() string {
	text := f.Kind
	for _, name := range []string{"by", "delay", "ratio", "status", "rate", "cpu", "memory", "grace"} {
		if value := fieldNamed(reflect.ValueOf(f), name); !value.IsZero() {
			text += fmt.Sprintf(" %s %v", name, value)
		}
	}
	return text
}

// String names the affected tasks: "server, the first replica".
func (t FaultTarget) String() string {
	t = Fault{Target: t}.Defaults().Target
	text := map[string]string{"app": "", "data": "sidecar of ", "control": "control plane"}[t.Plane]
	if t.Plane == "control" {
		return text
	}
	text += cmp.Or(t.Service, "the entry")
	switch {
	case t.Replica != nil:
		return fmt.Sprintf("%s, replica %d", text, *t.Replica)
	case t.Pick == "all":
		return text + ", all replicas"
	case t.Pick == "random":
		return text + ", a random replica"
	}
	return text + ", the first replica"
}

// Defaults fills in absent fields.
func (f Fault) Defaults() Fault {
	f.Count = cmp.Or(f.Count, 1)
	f.Target.Pick, f.Target.Plane = cmp.Or(f.Target.Pick, faultPicks[0]), cmp.Or(f.Target.Plane, faultPlanes[0])
	f.Grace, f.Status = cmp.Or(f.Grace, defaultGrace), cmp.Or(f.Status, defaultStatus)
	if kind, ok := FaultKindOf(f.Kind); ok {
		f.Recovery = cmp.Or(f.Recovery, kind.Recovery)
	}
	return f
}

func FaultKindOf(name string) (FaultKind, bool) {
	return lists.First(FaultKinds(), func(k FaultKind) bool { return k.Name == name })
}

// faultReplicas reports replicas that the target has in no treatment.
func (v faultRules) faultReplicas(path string, f Fault) {
	n := v.replicas(f.Target.Service)
	if n == 0 || f.Target.Plane == "control" {
		return
	}
	if r := f.Target.Replica; r != nil && *r >= n && *r <= maxReplicas {
		v.report(path+".target.replica", "replicas count from 0", "there is no replica %d: the service has at most %d", *r, n)
	}
	if f.By < -n || f.By > n {
		v.report(path+".by", "by: -1 removes one replica", "%d is more than the replicas of the service, %d", f.By, n)
	}
}

// replicas returns the most replicas that a service has in any treatment, or 0 if unknown. The empty name is the entry.
func (v faultRules) replicas(service string) int {
	if !v.doc.Sound("application") || !v.doc.Sound("factors") {
		return 0
	}
	all, err := v.e.Topologies()
	if err != nil {
		return 0
	}
	levels := append(slices.Clone(LevelsOf[int](v.e.Factors, "replicas")), DefaultLevels().Replicas)
	most := 0
	for _, t := range all {
		if s, ok := t.Service(cmp.Or(service, t.EntryName())); ok && s.Replicas > 0 {
			most = max(most, s.Replicas)
		} else if ok {
			most = max(most, slices.Max(levels))
		}
	}
	return most
}

func faultRows() []fieldRow {
	kinds := lists.Map(FaultKinds(), func(k FaultKind) string { return k.Name + " (" + k.Doc + ")" })
	all := []fieldRow{
		{"faults", "Faults during the measure phase. They heal at the end of the trial.", nil, nil},
		{"faults[].kind", "Kind of fault: " + strings.Join(kinds, "; ") + ".", nil, enum(faultKindNames()...)},
		{"faults[].at", "Time from the start of the measure phase.", nil, nil},
		{"faults[].every", "Time between repetitions.", nil, nil},
		{"faults[].count", "Number of repetitions.", 1, between(0, maxFaults, "")},
		{"faults[].for", "Duration; default: until the trial ends.", nil, nil},
		{"faults[].recovery", "Time after the heal in which checks remain suspended; default by kind: 2s or 10s.", nil, nil},
		{"faults[].target", "Affected tasks.", nil, nil},
		{"faults[].target.service", "Service; default: the entry. load with plane data: the generator's sidecar.", nil, nil},
		{"faults[].target.replica", "Replica, from 0.", nil, between(0, maxReplicas, "")},
		{"faults[].target.pick", "Choice among replicas without a fault.", faultPicks[0], oneOf("way to pick", faultPicks...)},
		{"faults[].target.plane", "app: the service; data: its sidecar; control: the mesh's control plane.", faultPlanes[0], oneOf("plane", faultPlanes...)},
		{"expect", "Expectations: success_ratio >= 0.999 during fault, p99 < 250ms after 5s, status(5xx) == 0, recovers within 3s, change.last_old.p50 < 100ms, change.failed_share(endpoint-removed) < 1%, start.through < 2s.", nil, nil},
	}
	for _, p := range faultParameters() {
		with := lists.Where(FaultKinds(), func(k FaultKind) bool { return k.has(p.path) })
		names := strings.Join(lists.Map(with, func(k FaultKind) string { return k.Name }), ", ")
		all = append(all, fieldRow{"faults[]." + p.path, names + ": " + p.text + ".", p.otherwise, p.bounds})
	}
	return all
}

func faultKindNames() []string {
	return lists.Map(FaultKinds(), func(k FaultKind) string { return k.Name })
}

// Default times after a heal in which its effects may last: connections are opened again and backlogs are sent, or
// only the requests in flight are affected.
const (
	reconnectTime = Duration(10 * time.Second)
	answerTime    = Duration(2 * time.Second)
)

var (
	trafficChecks      = []string{RateMissed, RateExceeded, Errors}
	trafficAndRestarts = append(slices.Clone(trafficChecks), Restarted)
)

func FaultKinds() []FaultKind {
	return []FaultKind{
		{Name: "kill", Doc: "SIGKILL; healed by starting it again at its address", Ability: EndTasks, Suspends: trafficAndRestarts, Recovery: reconnectTime},
		{Name: "terminate", Doc: "SIGTERM, and SIGKILL after grace; healed as kill is", Optional: []string{"grace"}, Ability: EndTasks, Suspends: trafficAndRestarts, Recovery: reconnectTime},
		{Name: "pause", Doc: "SIGSTOP; healed by SIGCONT", Ability: SuspendTasks, Suspends: trafficAndRestarts, Recovery: reconnectTime},
		{Name: "restart", Doc: "terminate, and start again at once", Optional: []string{"grace"}, Ability: EndTasks, Suspends: trafficAndRestarts, Recovery: reconnectTime},
		{Name: "scale", Doc: "replicas end with their sidecars (by: -1), or removed ones come back (by: 1); healed by the reverse", Required: []string{"by"}, Optional: []string{"grace"}, AppOnly: true, Ability: ScaleServices, Suspends: trafficAndRestarts, Recovery: reconnectTime},
		{Name: "latency", Doc: "the service waits before each answer", Required: []string{"delay"}, AppOnly: true, Ability: ChangeServices, Suspends: trafficChecks, Recovery: answerTime},
		{Name: "errors", Doc: "a share of the answers fails", Required: []string{"ratio"}, Optional: []string{"status"}, AppOnly: true, Ability: ChangeServices, Suspends: []string{Errors}, Recovery: answerTime},
		{Name: "rate-limit", Doc: "requests beyond a rate are answered with 429", Required: []string{"rate"}, AppOnly: true, Ability: ChangeServices, Suspends: []string{Errors}, Recovery: answerTime},
		{Name: "cpu-burn", Doc: "each request costs CPU time", Required: []string{"cpu"}, AppOnly: true, Ability: ChangeServices, Suspends: trafficChecks, Recovery: reconnectTime},
		{Name: "memory", Doc: "memory is held", Required: []string{"memory"}, AppOnly: true, Ability: ChangeServices, Suspends: trafficAndRestarts, Recovery: answerTime},
		{Name: "partition", Doc: "no packet reaches a pod, or leaves it", Ability: ImpairNetworks, Suspends: trafficChecks, Recovery: reconnectTime},
		{Name: "packet-loss", Doc: "a share of a pod's packets is lost", Required: []string{"ratio"}, Ability: ImpairNetworks, Suspends: trafficChecks, Recovery: reconnectTime},
		{Name: "packet-delay", Doc: "each packet to and from a pod is late", Required: []string{"delay"}, Ability: ImpairNetworks, Suspends: trafficChecks, Recovery: answerTime},
		{Name: "bandwidth", Doc: "bytes per second to and from a pod are limited; excess packets are lost", Required: []string{"rate"}, Ability: ImpairNetworks, Suspends: trafficChecks, Recovery: reconnectTime},
	}
}

func (k FaultKind) has(parameter string) bool {
	return slices.Contains(k.Required, parameter) || slices.Contains(k.Optional, parameter)
}

func faultParameters() []fieldRow {
	return []fieldRow{
		{"grace", "time from SIGTERM to SIGKILL", defaultGrace.String(), between(0, maxFaultDelay, "")},
		{"by", "replicas to remove (-1) or restore (1)", nil, between(-maxReplicas, maxReplicas, byHint)},
		{"delay", "time added", nil, between(0, maxFaultDelay, "")},
		{"ratio", "share", nil, span[float64]{low: 0, high: 1, openLow: true, hint: "0.05 is 5 %"}},
		{"status", "status", defaultStatus, between(400, 599, "")},
		{"rate", "requests per second, or bytes per second", nil, between(0, 1e12, "")},
		{"cpu", "CPU time per request", nil, between(0, maxFaultDelay, "")},
		{"memory", "amount per replica", nil, between(0, maxFaultMemory, "")},
	}
}

const (
	maxStarts   = 100
	startsProbe = "requests over HTTP/1.1 show what has started"
)

// NamesReplicas reports whether answers must name the pod that served them, to show which has started.
func NamesReplicas(e *Experiment) bool { return e.Starts > 0 && e.onCluster() }

type startRules struct{ validation }

func (v startRules) validate() {
	if v.e.Starts == 0 || !v.doc.Sound("starts") {
		return
	}
	switch {
	case !v.local() && !v.e.onCluster():
		v.report("starts", "remove it, or write platform: {kind: local}", "platform %s stops and starts no pods", v.e.Platform.Kind)
	case v.e.onCluster() && factorRules(v).foreign():
		v.report("starts", "use a topology", "answers of a chart, manifests or a namespace do not show which replica served them")
	case slices.ContainsFunc(v.e.protocols(), func(p string) bool { return p != app.HTTP1 }):
		v.report("starts", "write factors: {protocol: [http1]}", startsProbe)
	case v.local() && faultRules(v).replicas("") > 1:
		v.report("starts", "remove factors.replicas", "another replica of the entry would answer meanwhile")
	}
}

func startRows() []fieldRow {
	return []fieldRow{
		{"starts", "Stops and starts of the entry's pod after the load of each trial; on a cluster of all its replicas at once. Requests every 5 ms show when application and sidecar answer, and what is lost.", 0, between(0, maxStarts, "")},
	}
}
