package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/base/strict"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

type applicationRules struct{ validation }

func (v applicationRules) validate() {
	if v.doc.Has("factors.application") && (v.local() || len(v.e.Applications) == 0 || !v.e.foreign()) {
		v.conflicts()
		return
	}
	inline := len(v.e.Application.Services) > 0 || v.doc.Has("application.services")
	v.source()
	switch {
	case v.e.Application.Source.IsSet() && !inline:
		return // source has the reason
	case v.e.Application.IsOwn():
		v.program()
	case inline && v.e.Application.Topology != "":
		v.report("application.topology", "remove one of the two", "both a topology and services are written")
	case inline:
		v.e.inline().Validate(v.doc, "application.")
	default:
		v.topology()
	}
	v.onlyOwn()
	v.chart(inline)
	v.own()
}

func (v applicationRules) program() {
	refuse(v.validation, "application.", []string{"topology", "services", "chart", "manifests", "namespace", "entry"},
		"remove it, or write command and url into the services", "the application is one program: application.command or application.url")
	v.e.inline().Validate(inEntry{v.doc, "application"}, "application.")
}

// onlyOwn reports fields of a program without its command.
func (v applicationRules) onlyOwn() {
	if !v.e.Application.IsOwn() {
		refuse(v.validation, "application.", []string{"env", "dir", "ready", "tls", "prefix", "beside"}, "add command: [PROGRAM, ARGUMENT, …], or remove it", "it needs a command")
	}
}

// own checks what programs of the user need of the experiment.
func (v applicationRules) own() {
	t := v.e.inline()
	replicas := LevelsOf[int](v.e.Factors, "replicas")
	for i, s := range t.Services {
		if !s.IsOwn() {
			continue
		}
		path := fmt.Sprintf("application.services[%d]", i)
		if v.e.Application.IsOwn() {
			path = "application"
		}
		v.onThisMachine(path)
		for j, n := range replicas {
			if n > 1 && (s.URL != "" || len(s.Calls) > 0) {
				v.report(fmt.Sprintf("factors.replicas[%d]", j), "remove it, or write replicas: 1", "%s", ownReplicas(s))
			}
		}
		for _, c := range s.Calls {
			if callee, ok := t.Service(c.Service); ok && callee.Replicas > 1 {
				v.report(path, "write replicas: 1 at "+callee.Name, "%s", ownReplicas(s))
			}
		}
	}
}

// onThisMachine reports a program of the user on a cluster.
func (v applicationRules) onThisMachine(path string) {
	if !v.local() {
		v.report(path, "write platform: {kind: local}", "one's own program runs on this machine, and the platform is %s", v.e.Platform.Kind)
	}
}

// ownReplicas is the reason why a service or its callees cannot have several replicas.
func ownReplicas(s app.Service) string {
	if s.URL != "" {
		return s.Name + " is one running program"
	}
	return s.Name + " has one address for each service that it calls, so without a mesh it would call one replica only"
}

// conflicts reports an application beside the factor that selects it.
func (v applicationRules) conflicts() {
	refuse(v.validation, "application.", []string{"topology", "services", "entry", "chart", "manifests", "namespace", "command", "url"},
		"remove one of the two", "factors.application selects the application")
}

// topology checks that the named topology exists. The services of a file are in the experiment once it was read.
func (v applicationRules) topology() {
	name := v.e.Application.Topology
	if !v.doc.Sound("application.topology") {
		return
	}
	if app.IsFile(name) {
		v.report("application.topology", "", "a recorded experiment has the services themselves")
		return
	}
	t, err := app.Load(name)
	if err != nil {
		v.report("application.topology", strict.DidYouMean(name, v.names.topologies()), "unknown topology %q", clip(name))
		return
	}
	if entry := v.e.Application.Entry; entry != "" {
		if _, ok := t.Service(entry); !ok {
			v.report("application.entry", "", "the topology has no service %q", clip(entry))
		}
	}
}

// chart checks that the platform can install the chart.
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
}

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
	names := lists.Map(a.Services, func(s app.Service) string { return s.Name })
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
