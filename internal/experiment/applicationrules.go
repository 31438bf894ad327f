package experiment

import (
	"errors"
	"path/filepath"

	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// applicationRules checks the services under test, and copies a topology's file into the experiment.
type applicationRules struct{ validation }

func (v applicationRules) validate() {
	if v.doc.Has("factors.topology") {
		v.conflicts()
		return
	}
	inline := len(v.e.Application.Services) > 0 || v.doc.Has("application.services")
	switch {
	case inline && v.doc.Has("application.topology"):
		v.report("application.topology", "remove one of the two", "both a topology and services are written")
	case inline:
		v.e.inline().Validate(v.doc, "application.", v.known.Programs.Names()...)
	default:
		v.topology()
	}
	v.chart(inline)
}

// conflicts reports an application beside the factor that selects it.
func (v applicationRules) conflicts() {
	for _, field := range []string{"topology", "services", "entry", "chart"} {
		if path := "application." + field; v.doc.Has(path) {
			v.report(path, "remove one of the two", "factors.topology selects the application")
		}
	}
}

// topology checks that the named topology exists. The services of a file are copied into the experiment, so that the
// rendered experiment needs no other file.
func (v applicationRules) topology() {
	name := v.e.Application.Topology
	if !v.doc.Sound("application.topology") {
		return
	}
	isFile := app.IsFile(name)
	t, err := v.find(name, isFile)
	var ps strict.Problems
	switch {
	case errors.As(err, &ps):
		for _, p := range ps {
			v.doc.Report("application.topology", p.Error(), p.Hint)
		}
		return
	case err != nil:
		hint := strict.DidYouMean(name, v.known.topologies())
		if isFile {
			hint = "the path is relative to the experiment file"
		}
		v.report("application.topology", hint, "%s", clipError(err))
		return
	}
	if entry := v.e.Application.Entry; entry != "" {
		if _, ok := t.Service(entry); !ok {
			v.report("application.entry", "", "the topology has no service %q", clip(entry))
		}
	}
	if !isFile {
		return
	}
	v.e.Application.Topology, v.e.Application.Services = "", t.Services
	if t.Chart != nil {
		v.e.Application.Chart = t.Chart
	}
	if v.e.Application.Entry == "" {
		v.e.Application.Entry = t.Entry
	}
}

// find loads a topology by name, or by a path relative to the experiment file.
func (v applicationRules) find(name string, isFile bool) (app.Topology, error) {
	load := v.known.Topology
	if load == nil {
		load = func(nameOrPath string) (app.Topology, error) {
			return app.Load(nameOrPath, v.known.Programs.Names()...)
		}
	}
	if isFile && !filepath.IsAbs(name) {
		name = filepath.Join(v.dir, name)
	}
	if isFile && !app.IsFile(name) { // Join turned "./dir" into "dir", which would be a name
		name = "./" + name
	}
	return load(name)
}

func clipError(err error) string {
	const most = 200
	if r := []rune(err.Error()); len(r) > most {
		return string(r[:most]) + "…"
	}
	return err.Error()
}

// chart checks that the platform can install the chart. It makes a path absolute.
func (v applicationRules) chart(inline bool) {
	c := v.e.Application.Chart
	switch {
	case c == nil:
		return
	case v.local():
		v.report("application", "write platform: {kind: kubernetes}", "a chart needs a cluster, and the platform is local")
	case !inline && v.doc.Has("application.chart"):
		v.report("application.chart", "list the names of the chart's Services in application.services", "the services of the chart are missing")
	}
	for i, n := range LevelsOf[int](v.e.Factors, "replicas") {
		if n > 1 && c.Replicas == "" {
			v.report("factors.replicas", "write the name of the chart's value in application.chart.replicas", "level %d: the chart has no value for %d replicas", i, n)
		}
	}
	if c.Local() && c.Chart != "" && !filepath.IsAbs(c.Chart) {
		if path, err := filepath.Abs(filepath.Join(v.dir, c.Chart)); err == nil {
			c.Chart = path // the rendered file is in another directory
		}
	}
}
