package experiment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/expect"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/load"
	"github.com/tare-mesh/tare/internal/metric"
)

// Changes are changes of routes, endpoints, policies, certificates and processes during the measure phase. Each is made when it is due, also if an earlier
// one has not taken effect.
type Changes struct {
	Every Duration `yaml:"every,omitempty" json:"every,omitzero"`
	Count int      `yaml:"count,omitempty" json:"count,omitempty"`
	Kinds []string `yaml:"kinds,omitempty" json:"kinds,omitempty"` // in random order, each equally often
	// To is the variant of the mesh that version-changed moves to. Empty means another revision of the same version.
	To string `yaml:"to,omitempty" json:"to,omitempty"`
	// Probe shows their effect in place of the load.
	Probe ChangeProbe `yaml:"probe,omitempty" json:"probe,omitzero"`
}

// ChangeProbe are requests beside the load, of the same kind. Rate 0 means none.
type ChangeProbe struct {
	Rate        float64 `yaml:"rate,omitempty" json:"rate,omitempty"`               // requests per second
	Connections int     `yaml:"connections,omitempty" json:"connections,omitempty"` // number of connections
}

// Bounds of changes.
const (
	minEvery     = Duration(10 * time.Millisecond)
	maxChanges   = 10000
	someChanges  = 30 // from which a trial has a median
	someProbes   = 16 // connections, several for each worker of a proxy
	leastRestart = Duration(500 * time.Millisecond)
	changesProbe = "the load of tare over HTTP, gRPC or WebSocket shows which version served each answer"
)

func (e *Experiment) Changing() bool { return e.Changes.Every > 0 }

func (f *File) completeChanges() {
	c := &f.Experiment.Changes
	if !f.Has("changes") {
		return
	}
	if !f.Has("changes.count") {
		c.Count = someChanges
	}
	if !f.Has("changes.kinds") {
		c.Kinds = []string{metric.RouteChanged}
	}
	switch {
	case f.Has("changes.probe") && !f.Has("changes.probe.connections"):
		c.Probe.Connections = someProbes
	case !f.Has("changes.probe") && f.Experiment.Platform.Kind == mesh.OnLocal && asksForMilliseconds(f.Experiment) && coarse(f.Experiment):
		c.Probe = fineProbe
	}
}

// shortLimit is the limit of a time of changes, ms, below which 1 ms matters.
const shortLimit = 100

// fineProbe bounds the median of 30 changes to 1 ms if a proxy has up to two workers: its requests follow one another within 1 ms for one
// worker. With two, the one with the fewest connections has 21 of 64 at least, so that its requests come every 3 ms. Of 30 changes some
// fall within 28 % of that time after one.
var fineProbe = ChangeProbe{Rate: 1000, Connections: 64}

// asksForMilliseconds reports whether an expectation has a short limit for a time of changes.
func asksForMilliseconds(e *Experiment) bool {
	return slices.ContainsFunc(e.Expect, func(text string) bool {
		c, err := expect.Parse(text)
		if err != nil {
			return false // it is reported elsewhere
		}
		limit, about := c.BoundsTime()
		return about && limit < shortLimit
	})
}

// coarse reports whether the load of a treatment has a lower rate than [fineProbe], or more connections.
func coarse(e *Experiment) bool {
	rates := levelsOr(e, "rate", RateLevel{Rate: DefaultLevels().Rate})
	return slices.ContainsFunc(rates, func(l RateLevel) bool { return l.Rate == Max || float64(l.Rate) < fineProbe.Rate }) ||
		slices.ContainsFunc(levelsOr(e, ConnectionsFactor, DefaultLevels().Connections), func(n int) bool { return n > fineProbe.Connections })
}

type changeRules struct{ validation }

func (v changeRules) validate() {
	if !v.doc.Has("changes") {
		return
	}
	c := v.e.Changes
	if !v.doc.Has("changes.every") {
		v.report("changes", "add every: 500ms", "they have no time between")
	}
	if last := float64(c.Every) * float64(c.Count+1); last > float64(v.e.Phases.Measure) {
		v.report("changes.count", "raise phases.measure, or lower count or every",
			"the last change has no time to take effect: %d changes every %v need a measure phase of %v", c.Count, c.Every, Duration(last))
	}
	if v.doc.Has("changes.probe") && !v.doc.Has("changes.probe.rate") {
		v.report("changes.probe", "write probe: {rate: 1000}", "it has no rate")
	}
	v.kinds(c.Kinds)
	v.target()
	v.observed()
}

// target checks the mesh that version-changed moves to.
func (v changeRules) target() {
	const path = "changes.to"
	to := v.e.Changes.To
	if !v.doc.Has(path) {
		return
	}
	v.check(path, to, oneOf("mesh", v.meshNames()...))
	if !v.doc.Sound(path) {
		return
	}
	if !slices.Contains(v.e.Changes.Kinds, metric.VersionChanged) {
		v.report(path, "remove it, or write kinds: ["+metric.VersionChanged+"]", "no kind of change moves the application to another version")
		return
	}
	for _, name := range v.e.meshes() {
		d, known := v.definition(name)
		switch {
		case !known || d.Kubernetes == nil:
		case v.e.base(name) != v.e.base(to):
			v.report(path, fmt.Sprintf("write a variant of it: meshes: {NAME: {from: %s, version: VERSION}}", v.e.base(name)), "%s is no variant of mesh %s", to, name)
		case !v.enrolsAs(*d.Kubernetes, name, to):
			v.report(path, "give both the same options and resources, but for those of the control plane",
				"mesh %s needs other objects or annotations in the namespace of the application than %s", to, name)
		}
	}
}

// enrolsAs reports whether two variants of a mesh render the same objects and marks of pods in the namespace of the application.
// A move leaves them there. It is also true for settings that are reported elsewhere.
func (v changeRules) enrolsAs(k mesh.Kubernetes, one, other string) bool {
	rendered := func(name string) (mesh.Enrolled, error) {
		return k.Enrol(v.e.MeshSettings(name).Settings(), "tare", mesh.Way{LoadInside: true})
	}
	a, err := rendered(one)
	b, failed := rendered(other)
	return err != nil || failed != nil || slices.Equal(a.Manifests, b.Manifests) && maps.Equal(a.Pod.Labels, b.Pod.Labels) && maps.Equal(a.Pod.Annotations, b.Pod.Annotations)
}

func (v changeRules) kinds(kinds []string) {
	if len(kinds) == 0 {
		v.report("changes.kinds", "write kinds: ["+metric.RouteChanged+"]", "the list is empty")
	}
	for i, name := range kinds {
		v.check(fmt.Sprintf("changes.kinds[%d]", i), name, oneOf("kind of change", metric.ChangeNames(nil)...))
		v.able(fmt.Sprintf("changes.kinds[%d]", i), name)
	}
	for _, kind := range metric.ChangeKinds() {
		if has := slices.Contains(kinds, kind.Name); kind.After != "" && has != slices.Contains(kinds, kind.After) {
			v.report("changes.kinds", "write both", "%s and %s go together: the second undoes the first", kind.After, kind.Name)
		}
	}
	for _, kind := range metric.ChangeKinds() {
		has := slices.Contains(kinds, kind.Name)
		switch {
		case has && kind.Name == metric.EndpointRemoved && faultRules(v).replicas("") < 2:
			v.report("changes.kinds", "write factors: {replicas: [2]}", "%s needs two replicas of the entry", kind.Name)
		case has && kind.Plane != "" && v.e.Changes.Every < leastRestart:
			v.report("changes.every", "write every: 2s", "%s ends a process and starts it again: it needs %v or more", kind.Name, leastRestart)
		}
	}
}

// able reports a kind that a mesh of the experiment cannot make, with the kinds that it can.
func (v changeRules) able(path, kind string) {
	on := mesh.OnLocal
	if v.e.onCluster() {
		on = mesh.OnKubernetes
	}
	if _, known := metric.ChangeKindOf(kind); !known || on != v.e.Platform.Kind || !v.doc.Sound("factors") {
		return
	}
	if !v.doc.Has(path) {
		path = "changes"
	}
	restarts := func(name string) bool {
		d, known := v.definition(name)
		return !known || !d.NothingRestarts(on, kind)
	}
	if !slices.ContainsFunc(meshesOf(v.e), restarts) {
		v.report(path, "add a mesh to factors.mesh", "%s restarts nothing without a mesh", kind)
	}
	for _, name := range meshesOf(v.e) {
		d, known := v.definition(name)
		if !known {
			continue
		}
		if other := v.excluded(d, kind); other != "" {
			v.report(path, "compare them in two experiments", "mesh %s cannot make %s beside %s", name, kind, other)
		}
		if err := d.CanChange(on, kind); err != nil {
			can := metric.ChangeNames(func(k metric.ChangeKind) bool {
				return d.CanChange(on, k.Name) == nil && !d.NothingRestarts(on, k.Name)
			})
			v.report(path, fmt.Sprintf("%s can make: %s; meshes that can make %s: %s", name, listOr(can, "none"), kind, listOr(v.meshesThatChange(on, kind), "none")),
				"mesh %s cannot make %s: %v", name, kind, err)
		} else if d.Local != nil && on == mesh.OnLocal {
			if least := Duration(d.Local.Changes[kind].EverySeconds) * Duration(time.Second); v.e.Changes.Every < least {
				v.report("changes.every", fmt.Sprintf("write every: %v", least), "%s needs %v or more with mesh %s", kind, least, name)
			}
		}
	}
}

// excluded is a kind of the experiment that a mesh cannot make beside another, "" for none.
func (v changeRules) excluded(d mesh.Definition, kind string) string {
	if d.Local == nil || v.e.onCluster() {
		return ""
	}
	without := d.Local.Changes[kind].Without
	other, _ := lists.First(v.e.Changes.Kinds, func(k string) bool { return slices.Contains(without, k) })
	return other
}

func (v changeRules) meshesThatChange(on, kind string) []string {
	return meshesWith(v.validation, func(d mesh.Definition) bool {
		return d.On(on) == nil && d.CanChange(on, kind) == nil && !d.NothingRestarts(on, kind)
	})
}

func listOr(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}

// observed reports what keeps the effects of changes from being seen.
func (v changeRules) observed() {
	switch e := v.e; {
	case e.onCluster() && slices.Contains(e.Changes.Kinds, metric.ProxyRestarted) && slices.Contains(e.Changes.Kinds, metric.EndpointRemoved):
		v.report("changes.kinds", "measure them in two experiments", "on a cluster %s replaces a pod, and %s has the pods of before", metric.ProxyRestarted, metric.EndpointRemoved)
	case slices.Contains(e.Changes.Kinds, metric.VersionChanged) && len(e.Changes.Kinds) > 1:
		v.report("changes.kinds", "measure the other kinds in another experiment", "%s replaces the pods of the application", metric.VersionChanged)
	case slices.Contains(e.Changes.Kinds, metric.VersionChanged) && e.Platform.Namespace != "":
		v.report("changes.kinds", "remove platform.namespace", "%s changes the labels of the namespace", metric.VersionChanged)
	case e.onCluster() && factorRules(v).foreign():
		v.report("changes", "use a topology", "answers of a chart, manifests or a namespace do not show which replica served them")
	case e.onCluster() && e.Load.Workers > 1:
		v.report("load.workers", "write workers: 1", "answers of one load worker show the effect of changes")
	case e.onCluster() && e.Changes.Probe.Rate > 0:
		v.report("changes.probe", "remove it: the load shows the effect of changes", "a load worker of a cluster sends one load")
	case !e.onCluster() && e.Platform.Kind != mesh.OnLocal:
		v.report("changes", "remove changes, or write platform: {kind: local}", "platform %s makes none", e.Platform.Kind)
	case otherGenerator(e) != "":
		v.report("changes", "use load generator tare", changesProbe)
	case slices.Contains(e.protocols(), app.TCP):
		v.report("changes", "write factors: {protocol: [http1]}", changesProbe)
	case e.searches(), e.closedLoop() && e.Changes.Probe.Rate == 0:
		v.report("changes", "give a rate, or write probe: {rate: 1000}", "the probes of a closed loop wait for a slow proxy, and miss what it does meanwhile")
	}
}

func changeRows() []fieldRow {
	kinds := lists.Map(metric.ChangeKinds(), func(k metric.ChangeKind) string { return k.Name + ": " + k.Doc + "." })
	return []fieldRow{
		{"changes", "Changes of routes, endpoints, policies, certificates and processes during the measure phase. The load shows their effect, or a probe.", nil, nil},
		{"changes.every", "Time between changes. The first comes after this time.", nil, between(minEvery, maxPhase, "")},
		{"changes.count", "Number of changes in each trial. A median needs 30, the 99 % quantile 1000.", someChanges, between(1, maxChanges, "")},
		{"changes.kinds", "Kinds, in random order and equally often. " + strings.Join(kinds, " ") + " Without a mesh no process of one restarts: requests that fail then fail without a change.", nil, form(levelList)},
		{"changes.to", "Variant of the mesh that version-changed moves to, with its version and charts; default: another revision of the same version.", nil, nil},
		{"changes.probe", "Requests beside the load, on this machine, that show the effect in its place, so that the load can be slow or a closed loop. A change is known to the time between two requests of a connection. Costs per request contain the probe's requests, rate and response times do not. An expectation about a time below 100 ms has {rate: 1000, connections: 64} by itself where a load has a lower rate or more connections; {rate: 0} is none.", nil, nil},
		{"changes.probe.rate", "Requests per second.", nil, between(0.0, float64(load.MaxRate), "")},
		{"changes.probe.connections", "Their connections: several for each worker of a proxy.", someProbes, between(1, maxConnections, "")},
	}
}

// Background is the further work and knowledge of a control plane: services that no request calls, changes of their endpoints, simulated
// proxies, and pods of simulated nodes. Each is a factor if it has several levels.
type Background struct {
	Services int       `yaml:"services,omitempty" json:"services,omitempty"`
	Changes  PerSecond `yaml:"changes,omitempty" json:"changes,omitempty"` // of endpoints of all services together
	Proxies  int       `yaml:"proxies,omitempty" json:"proxies,omitempty"` // that are simulated
	Pods     int       `yaml:"pods,omitempty" json:"pods,omitempty"`       // of all services together, on simulated nodes
}

// Bounds of a background.
const (
	maxBackgroundServices = 10000
	maxBackgroundPods     = 10000
	maxBackgroundChanges  = PerSecond(1000)
)

// PerSecond is a number of events per second, written as "2/s" or 2.
type PerSecond float64

// String is the number with its unit.
func (p PerSecond) String() string { return strconv.FormatFloat(float64(p), 'f', -1, 64) + "/s" }

func (PerSecond) Wants() string { return "a number per second such as 2/s" }

func (p *PerSecond) UnmarshalScalar(text string) error {
	number, _ := strings.CutSuffix(strings.TrimSpace(text), "/s")
	f, err := strict.Number(strings.TrimSpace(number))
	if err != nil {
		return fmt.Errorf("found %.40q, expected %s", text, p.Wants())
	}
	*p = PerSecond(f)
	return nil
}

func (p PerSecond) MarshalYAML() (any, error) { return p.String(), nil }

// backgroundLevels are all levels of the parts of a background that treatments have.
type backgroundLevels struct {
	services, proxies, pods []int
	changes                 []PerSecond
}

func backgroundOf(e *Experiment) backgroundLevels {
	return backgroundLevels{services: levelsOr(e, BackgroundServicesFactor, e.Background.Services), proxies: levelsOr(e, BackgroundProxiesFactor, e.Background.Proxies),
		pods: levelsOr(e, BackgroundPodsFactor, e.Background.Pods), changes: levelsOr(e, BackgroundChangesFactor, e.Background.Changes)}
}

// MaxBackgroundPods returns the largest number of background pods of a treatment.
func MaxBackgroundPods(e *Experiment) int { return slices.Max(backgroundOf(e).pods) }

// levelsOr returns the levels of a factor, or the only one if it is not a factor.
func levelsOr[T any](e *Experiment, factor string, only T) []T {
	if levels := LevelsOf[T](e.Factors, factor); len(levels) > 0 {
		return levels
	}
	return []T{only}
}

// CheckBackground returns an error with a hint if a mesh cannot have the background of an experiment. Without a mesh there is
// nothing that would know it. A cluster has services with every mesh.
func CheckBackground(e *Experiment, meshes []mesh.Definition) error {
	var failed []error
	for _, m := range meshes {
		if part, err := lacking(e, m); err != nil {
			failed = append(failed, fmt.Errorf("background.%s: %w", part, err))
		}
	}
	return hint.Wrap(errors.Join(failed...), havingBackground(e))
}

// lacking returns the part of the background that a mesh cannot have, and the reason.
func lacking(e *Experiment, m mesh.Definition) (part string, err error) {
	levels := backgroundOf(e)
	part, on := "services", mesh.OnLocal
	if e.onCluster() {
		on = mesh.OnKubernetes
	}
	switch {
	case slices.Max(levels.services) == 0:
	case on == mesh.OnLocal && m.Local != nil && m.Local.Background == nil:
		err = fmt.Errorf("%w: its definition has no requests in local.background", errors.ErrUnsupported)
	case slices.Max(levels.proxies) > 0:
		part, err = "proxies", m.CanSimulate(on)
	}
	if err != nil {
		err = fmt.Errorf("mesh %s has none: %w", m.Name, err)
	}
	return part, err
}

// havingBackground is a hint: a mesh of tare's that has all of it.
func havingBackground(e *Experiment) string {
	if e.onCluster() {
		return "of tare's meshes istio has it"
	}
	return "of tare's meshes envoy-xds has it"
}

func changesBehind(e *Experiment) bool {
	return slices.Max(backgroundOf(e).changes) > 0
}

// String is the background in a line, "" for none.
func (b Background) String() string {
	if b.Services == 0 {
		return ""
	}
	line := fmt.Sprintf("Background: %d services that no request calls", b.Services)
	if b.Pods > 0 {
		line += fmt.Sprintf(", of %d pods on simulated nodes", b.Pods)
	}
	if b.Proxies > 0 {
		line += fmt.Sprintf(", %d simulated proxies", b.Proxies)
	}
	if b.Changes > 0 {
		line += fmt.Sprintf(", and %s changes of them", b.Changes)
	}
	return line
}

type backgroundRules struct{ validation }

func (v backgroundRules) validate() {
	if !v.doc.Sound("background") || !v.doc.Sound("factors") {
		return
	}
	levels := backgroundOf(v.e)
	services, changes, proxies := levels.services, levels.changes, levels.proxies
	for _, f := range []struct{ field, factor string }{
		{"background.services", BackgroundServicesFactor}, {"background.changes", BackgroundChangesFactor}, {"background.proxies", BackgroundProxiesFactor},
		{"background.pods", BackgroundPodsFactor},
	} {
		if v.doc.Has(f.field) && v.doc.Has("factors."+f.factor) {
			v.report(f.field, "remove one of the two", "factors.%s has it already", f.factor)
		}
	}
	if slices.Max(changes) > 0 && slices.Min(services) == 0 {
		v.report(v.place("changes", BackgroundChangesFactor), "write services: 100 beside it, without a level 0", "there are no background services to change")
	}
	if slices.Max(proxies) > 0 && slices.Min(services) == 0 {
		v.report(v.place("proxies", BackgroundProxiesFactor), "write services: 100 beside it, without a level 0", "there are no background services that proxies could learn")
	}
	if most := float64(slices.Max(changes)) * time.Duration(v.e.Phases.Measure).Seconds(); most > mesh.MaxBackgroundChange {
		v.report(v.place("changes", BackgroundChangesFactor), "lower their rate, or shorten phases.measure", "%.0f changes in a trial are more than %d", most, mesh.MaxBackgroundChange)
	}
	v.pods(levels)
	v.known()
	if slices.Max(services) == 0 || v.e.Platform.Kind == mesh.OnLocal {
		return
	}
	at := v.place("services", BackgroundServicesFactor)
	switch {
	case !v.e.onCluster():
		v.report(at, "remove it, or write platform: {kind: local}", "platform %s has no background services", v.e.Platform.Kind)
	case v.e.Platform.Namespace != "":
		v.report("platform.namespace", "remove it, or background.services", "background services are in a namespace of each trial, and %s is an existing one", clip(v.e.Platform.Namespace))
	case v.e.Application.InPlace:
		v.report(at, "remove it, or measure a copy", "background services are in a namespace of each trial, and an application in place has its own")
	}
}

func (v backgroundRules) pods(levels backgroundLevels) {
	at, least := v.place("pods", BackgroundPodsFactor), 0
	for _, n := range levels.pods {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	switch most := slices.Max(levels.services); {
	case least == 0:
	case !v.e.onCluster():
		v.report(at, "remove it, or write platform: {kind: kubernetes}", "platform %s has no pods", v.e.Platform.Kind)
	case slices.Min(levels.services) == 0:
		v.report(at, "write services: 100 beside it, without a level 0", "there are no background services that pods could have")
	case least < most:
		v.report(at, fmt.Sprintf("write %d or more, or fewer services", most), "%d background services cannot share %d pods", most, least)
	}
}

// known reports meshes that cannot have the background, if their definitions are known.
func (v backgroundRules) known() {
	factors := map[string]string{"services": BackgroundServicesFactor, "proxies": BackgroundProxiesFactor}
	for _, name := range meshesOf(v.e) {
		if d, known := v.definition(name); known {
			if part, err := lacking(v.e, d); err != nil {
				v.report(v.place(part, factors[part]), havingBackground(v.e), "%v", err)
			}
		}
	}
}

// place is where the file has a part of the background.
func (v backgroundRules) place(field, factor string) string {
	if at := "factors." + factor; v.doc.Has(at) {
		return at
	}
	return "background." + field
}

func backgroundRows() []fieldRow {
	return []fieldRow{
		{"background", "What a control plane knows and does besides. Without a mesh it has no effect on this machine; on a cluster Kubernetes knows it.", nil, nil},
		{"background.services", "Services of one endpoint that no request calls, in the configuration of each proxy. On a cluster: Services in the trial's namespace, without a selector unless there are pods. As a factor: backgroundServices.", 0, between(0, maxBackgroundServices, "")},
		{"background.changes", "Changes of their endpoints during the measure phase, at random instants: 2/s. As a factor: backgroundChanges.", 0, between(0, maxBackgroundChanges, "")},
		{"background.proxies", "Simulated proxies: clients of the control plane (delta xDS) that subscribe and acknowledge as sidecars do, without a proxy. On a cluster: in a pod of the trial's namespace. As a factor: backgroundProxies.", 0, between(0, mesh.MaxBackgroundProxies, "")},
		{"background.pods", "Pods of these services, spread evenly, on nodes of KWOK (label type: kwok). No program runs in them. Kubernetes. As a factor: backgroundPods.", 0, between(0, maxBackgroundPods, "")},
	}
}
