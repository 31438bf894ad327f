package experiment

import (
	"errors"
	"slices"

	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// TopologyOf is the application under test of a treatment, complete. It cannot fail for an
// experiment that [Read] returned with the default [Known.Topology].
func (e *Experiment) TopologyOf(l Levels) (app.Topology, error) {
	if l.Topology != "" {
		return app.Load(l.Topology)
	}
	return e.Topology()
}

// Topologies are the applications under test: one for each level of the factor, or the one that is no factor.
func (e *Experiment) Topologies() ([]app.Topology, error) {
	names := e.Factors.Topology
	if len(names) == 0 {
		names = []string{""}
	}
	var all []app.Topology
	var failed []error
	for _, name := range names {
		t, err := e.TopologyOf(Levels{Topology: name})
		all = append(all, t)
		failed = append(failed, err)
	}
	return all, errors.Join(failed...)
}

// Topology is the application that the experiment names where it is no factor.
func (e *Experiment) Topology() (app.Topology, error) {
	if len(e.Application.Services) == 0 {
		t, err := app.Load(e.Application.Topology)
		if err == nil && e.Application.Entry != "" {
			t.Entry = e.Application.Entry
		}
		return t, err
	}
	return e.inline().Default(), nil
}

// namedTopology checks a level of the factor. A file has no place there: its services could not be taken into the experiment.
func (v validation) namedTopology(path, name string) {
	names := v.known.Topologies
	if names == nil {
		names = app.Names()
	}
	if !slices.Contains(names, name) {
		hint := strict.DidYouMean(name, names)
		if app.IsFile(name) {
			hint = "a file stands in application.topology"
		}
		v.report(path, hint, "there is no topology %q", clip(name))
	}
}

// asFactor reports an application beside the factor that says which it is.
func (v validation) asFactor() {
	for _, field := range []string{"topology", "services", "entry", "chart"} {
		if path := "application." + field; v.doc.Has(path) {
			v.report(path, "remove one of the two", "factors.topology says which application it is")
		}
	}
}
