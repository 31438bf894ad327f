package experiment

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
	"github.com/tare-mesh/tare/internal/experiment/manifest"
)

// findServices reads the objects of manifests or a namespace, and adds their Services to the file's services.
func (e *Experiment) findServices(doc *strict.Document, known Known, dir string) {
	a := &e.Application
	if !a.Source.IsSet() {
		return
	}
	for i, path := range a.Manifests { // the rendered file is in another directory
		if abs, err := filepath.Abs(filepath.Join(dir, path)); err == nil && !filepath.IsAbs(path) {
			a.Manifests[i] = abs
		}
	}
	if at := sourceField(a.Source); known.Objects != nil && doc.Sound(at) && e.onCluster() && (len(a.Manifests) == 0 || a.Namespace == "") {
		if set, err := known.Objects(e); err != nil {
			doc.Report(at, clipError(err), hint.Of(err))
			a.Services = withNamed(a.Services, a.Entry)
		} else {
			a.Objects = set
			a.Services = withFound(a.Services, set.Services)
		}
	}
	switch {
	case len(a.Services) == 0 && a.Entry != "": // the objects are unknown here
		a.Services = []app.Service{{Name: a.Entry}}
	case len(a.Services) == 1 && a.Entry == "":
		a.Entry = a.Services[0].Name
	}
}

// withNamed adds the services that an application names and does not list. They can be among objects that were not read.
func withNamed(written []app.Service, entry string) []app.Service {
	names := []string{entry}
	for _, s := range written {
		for _, c := range s.Calls {
			names = append(names, c.Service)
		}
	}
	for _, name := range names {
		if name != "" && !slices.ContainsFunc(written, func(s app.Service) bool { return s.Name == name }) {
			written = append(written, app.Service{Name: name})
		}
	}
	return written
}

// sourceField is the field that names the objects.
func sourceField(s app.Source) string {
	if s.Namespace != "" {
		return "application.namespace"
	}
	return "application.manifests"
}

// withFound completes the services of the file by the Services of objects, and adds the others.
func withFound(written []app.Service, found []manifest.Service) []app.Service {
	for _, f := range found {
		i := slices.IndexFunc(written, func(s app.Service) bool { return s.Name == f.Name })
		if i < 0 {
			written = append(written, app.Service{Name: f.Name, Port: f.Port, Protocol: f.Protocol})
			continue
		}
		if s := &written[i]; s.Port == 0 {
			s.Port = f.Port
			if s.Protocol == "" {
				s.Protocol = f.Protocol
			}
		}
	}
	return written
}

// source checks an application from manifests or a namespace.
func (v applicationRules) source() {
	a := v.e.Application
	if !a.Source.IsSet() {
		return
	}
	at := sourceField(a.Source)
	for _, field := range []string{"topology", "chart", "command", "url"} {
		if path := "application." + field; v.doc.Has(path) {
			v.report(path, "remove one of the two", "both %s and %s are written", at, path)
		}
	}
	switch {
	case len(a.Manifests) > 0 && a.Namespace != "":
		v.report("application.namespace", "remove one of the two", "both manifests and a namespace are written")
	case v.local():
		v.report(at, "write platform: {kind: kubernetes}", "Kubernetes objects need a cluster, and the platform is local")
	case a.Namespace != "" && !app.IsLabel(a.Namespace):
		v.report(at, "", "%q is not the name of a namespace", clip(a.Namespace))
	}
	v.inPlace()
	if slices.Contains(a.Manifests, "") {
		v.report(at, "name a file or a directory", "a path is empty")
	}
	for i, n := range LevelsOf[int](v.e.Factors, "replicas") {
		if n > 1 {
			v.report(fmt.Sprintf("factors.replicas[%d]", i), "remove it", "the objects have the numbers of replicas")
		}
	}
	v.entryOfSource()
}

// inPlace refuses settings that an application of others must not suffer, or that tare could not put back.
func (v applicationRules) inPlace() {
	const at = "application.inPlace"
	switch {
	case !v.e.Application.InPlace:
	case v.e.Application.Namespace == "":
		v.report(at, "write namespace: NAME", "only an application that runs in a namespace can be measured in place")
	case v.e.Outside() || v.e.Gateway():
		v.report(at, "remove load.from and load.entry", "a load from outside needs other Services and routes than those of the application")
	case len(v.e.Faults) > 0:
		v.report(at, "remove the faults, or inPlace", "faults would hit an application that others use")
	}
}

// entryOfSource checks that the load has a Service to go to.
func (v applicationRules) entryOfSource() {
	a := v.e.Application
	var names []string
	for _, s := range a.Services {
		names = append(names, s.Name)
	}
	entry := slices.IndexFunc(a.Services, func(s app.Service) bool { return s.Name == a.Entry })
	switch {
	case a.Entry == "" && a.Objects == nil && len(names) == 0: // unknown here
	case a.Entry == "":
		v.report("application.entry", "write entry: NAME, the Service that receives the load", "there are several Services or none: %s", clip(strings.Join(names, ", ")))
	case entry < 0:
		v.report("application.entry", strict.DidYouMean(a.Entry, names), "there is no Service %q with pods and a TCP port", clip(a.Entry))
	case a.Services[entry].Protocol == app.TCP:
		v.report("application.entry", "choose a Service of HTTP or gRPC; if it is one, write services: [{name: "+a.Entry+", protocol: http1}]",
			"the port of Service %s is of plain TCP, which the load does not know", clip(a.Entry))
	}
}

// ErrNoObjects reports that the objects of an application were not read.
var ErrNoObjects = errors.New("the objects of the application were not read")
