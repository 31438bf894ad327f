package experiment

import (
	"errors"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// Topologies returns the applications under test: one for each level of the factor, or the only one without it.
func (e *Experiment) Topologies() ([]app.Topology, error) {
	names := e.applications()
	if len(names) == 0 {
		names = []string{""}
	}
	var all []app.Topology
	var failed []error
	for _, name := range names {
		t, err := e.TopologyOf(Levels{Application: name})
		all = append(all, t)
		failed = append(failed, err)
	}
	return all, errors.Join(failed...)
}

// TopologyOf returns the application under test of a treatment, complete. It cannot fail for a valid experiment.
func (e *Experiment) TopologyOf(l Levels) (app.Topology, error) {
	if v, entry := e.Applications[l.Application]; entry && v.Topology != "" {
		return v.topology(l.Application)
	} else if entry && e.foreign() {
		t, err := e.Topology()
		t.Changes = e.ApplicationVariant(l.Application).ObjectChanges
		return t, err
	} else if entry {
		return ownTopology(l.Application, e.ApplicationVariant(l.Application).Own), nil
	}
	if l.Application != "" {
		return app.Load(l.Application)
	}
	return e.Topology()
}

// Topology returns the experiment's application if it is not a factor.
func (e *Experiment) Topology() (app.Topology, error) {
	if len(e.Application.Services) == 0 && !e.Application.IsOwn() && !e.Application.Source.IsSet() {
		t, err := app.Load(e.Application.Topology)
		if err == nil && e.Application.Entry != "" {
			t.Entry = e.Application.Entry
		}
		return t, err
	}
	return e.inline().Default(), nil
}

// foreign reports whether others' objects run the services.
func (e *Experiment) foreign() bool {
	return e.Application.Chart != nil || e.Application.Source.IsSet()
}

func (e *Experiment) applications() []string { return LevelsOf[string](e.Factors, ApplicationFactor) }

func (e *Experiment) meshes() []string { return LevelsOf[string](e.Factors, "mesh") }

// protocols lists the levels of the factor protocol, or its default.
func (e *Experiment) protocols() []string {
	return levelsOr(e, "protocol", DefaultLevels().Protocol)
}

// otherGenerator returns a load generator of the experiment that is not tare's own, or "".
func otherGenerator(e *Experiment) string {
	for _, name := range append(LevelsOf[string](e.Factors, "generator"), e.Load.Generator) {
		if name != "tare" {
			return name
		}
	}
	return ""
}

// exchanges reports whether a program that receives the load has its request.
func exchanges(e *Experiment) bool {
	all, _ := e.Topologies() // errors are reported elsewhere
	return slices.ContainsFunc(all, func(t app.Topology) bool {
		entry, ok := t.Service(t.EntryName())
		return ok && entry.Exchange.Send != ""
	})
}
