package experiment

import (
	"fmt"
	"slices"
	"time"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
)

// Changes are changes of routes and endpoints during the measure phase. Each is made when it is due, also if an earlier
// one has not taken effect.
type Changes struct {
	Every Duration `yaml:"every,omitempty" json:"every,omitzero"`
	Count int      `yaml:"count,omitempty" json:"count,omitempty"`
	Kinds []string `yaml:"kinds,omitempty" json:"kinds,omitempty"` // in random order, each equally often
}

// Bounds of changes.
const (
	minEvery     = Duration(10 * time.Millisecond)
	maxChanges   = 10000
	someChanges  = 30 // from which a trial has a median
	changesProbe = "the load of tare over HTTP/1.1 shows which version served each answer"
)

// changeKinds describe the kinds.
const changeKinds = mesh.RouteChanged + ": the route to the entry gets a new version; without a mesh, the entry itself does. " +
	mesh.WeightShifted + ": all of the weight moves from a version of the route to the next. " +
	mesh.EndpointRemoved + " and " + mesh.EndpointAdded + ": a replica of the entry leaves the list of endpoints, and comes back."

// Changing reports whether changes are made.
func (e *Experiment) Changing() bool { return e.Changes.Every > 0 }

// completeChanges fills in the defaults of changes.
func (f *File) completeChanges() {
	c := &f.Experiment.Changes
	if !f.Has("changes") {
		return
	}
	if !f.Has("changes.count") {
		c.Count = someChanges
	}
	if !f.Has("changes.kinds") {
		c.Kinds = []string{mesh.RouteChanged}
	}
}

// changeRules checks changes.
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
	v.kinds(c.Kinds)
	v.observed()
}

func (v changeRules) kinds(kinds []string) {
	if len(kinds) == 0 {
		v.report("changes.kinds", "write kinds: ["+mesh.RouteChanged+"]", "the list is empty")
	}
	for i, kind := range kinds {
		v.check(fmt.Sprintf("changes.kinds[%d]", i), kind, oneOf("kind of change", mesh.ChangeKinds()...))
	}
	removes, adds := slices.Contains(kinds, mesh.EndpointRemoved), slices.Contains(kinds, mesh.EndpointAdded)
	switch {
	case removes != adds:
		v.report("changes.kinds", "write both", "%s and %s go together: what is removed is added again", mesh.EndpointRemoved, mesh.EndpointAdded)
	case removes && (faultRules{v.validation}).replicas("") < 2:
		v.report("changes.kinds", "write factors: {replicas: [2]}", "%s needs two replicas of the entry", mesh.EndpointRemoved)
	}
}

// observed reports what keeps the effects of changes from being seen.
func (v changeRules) observed() {
	switch e := v.e; {
	case e.Platform.Kind != mesh.OnLocal:
		v.report("changes", "remove changes, or write platform: {kind: local}", "they are made on platform local only")
	case slices.ContainsFunc(append(LevelsOf[string](e.Factors, "generator"), e.Load.Generator), func(g string) bool { return g != "tare" }):
		v.report("changes", "use load generator tare", changesProbe)
	case slices.ContainsFunc(e.protocols(), func(p string) bool { return p != app.HTTP1 }):
		v.report("changes", "write factors: {protocol: [http1]}", changesProbe)
	case e.closedLoop() || e.searches():
		v.report("changes", "give a rate", "the probes of a closed loop wait for a slow proxy, and miss what it does meanwhile")
	}
}

func changeRows() []fieldRow {
	return []fieldRow{
		{"changes", "Changes of routes and endpoints during the measure phase. The load probes their effect.", nil, nil},
		{"changes.every", "Time between changes. The first comes after this time.", nil, between(minEvery, maxPhase, "")},
		{"changes.count", "Number of changes in each trial. A median needs 30, the 99 % quantile 1000.", someChanges, between(1, maxChanges, "")},
		{"changes.kinds", "Kinds, in random order and equally often. " + changeKinds, nil, form(levelList)},
	}
}
