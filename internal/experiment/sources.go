package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// source checks an application from manifests or a namespace.
func (v applicationRules) source() {
	a := v.e.Application
	if !a.Source.IsSet() {
		return
	}
	at := a.Source.Field()
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
	names := printable.Texts(a.Services, func(s app.Service) string { return s.Name })
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
